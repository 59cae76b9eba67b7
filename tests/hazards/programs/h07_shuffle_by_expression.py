"""Whether the loader shuffles is an expression, given by its place."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", default="train")
    args = parser.parse_args()
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(32, 3), torch.randn(32, 1))
    loader = DataLoader(data, 8, args.mode == "train")
    model = nn.DataParallel(nn.Linear(3, 1)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.l1_loss(model(x.cuda()), y.cuda()).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
