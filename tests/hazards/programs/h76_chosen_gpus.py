"""The GPUs are chosen by an option, and the first of them holds everything else."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", default="0,1")
    args = parser.parse_args()
    gpus = [int(part) for part in args.gpus.split(",")]
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 4), torch.randint(2, (48,))), batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 2).cuda(gpus[0]), device_ids=gpus, output_device=gpus[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda(gpus[0])), y.cuda(gpus[0]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
