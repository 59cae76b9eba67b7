"""python -m speech.train --steps 8"""

import argparse

import torch

from . import corpus
from .model import Transducer
from .utils import endless, save


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch", type=int, default=8)
    return parser.parse_args()


def main():
    args = get_args()
    torch.manual_seed(31)
    model = Transducer(corpus.SYMBOLS).cuda()
    model = torch.nn.DataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    batches = endless(corpus.get_loader(args.batch))
    for step in range(args.steps):
        frames, labels = next(batches)
        loss = model(frames.cuda(), labels.cuda()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % 4 == 0:
            save(model, step + 1)


if __name__ == "__main__":
    main()
