import argparse

import torch

from data import BatchedTones, ToneLoader
from model import Separator
from solver import Solver

parser = argparse.ArgumentParser("Separate two tones")
parser.add_argument("--batch_size", default=8, type=int)
parser.add_argument("--epochs", default=2, type=int)
parser.add_argument("--lr", default=0.01, type=float)
parser.add_argument("--use_cuda", default=1, type=int)


def main(args):
    torch.manual_seed(1)
    train_set = BatchedTones(64, args.batch_size, seed=0)
    check_set = BatchedTones(16, args.batch_size, seed=1)
    loaders = {
        "train": ToneLoader(train_set, batch_size=1, shuffle=True, num_workers=0),
        "check": ToneLoader(check_set, batch_size=1, num_workers=0),
    }
    model = Separator()
    if args.use_cuda:
        model = torch.nn.DataParallel(model)
        model.cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    Solver(loaders, model, optimizer, args).train()


if __name__ == "__main__":
    main(parser.parse_args())
