"""An option whose name is the beginning of two of the launcher's own."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", default="train")
    parser.add_argument("--n", type=int, default=48)
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(args.n, 4), torch.randn(args.n, 1)), batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(args.log, epoch)


if __name__ == "__main__":
    main()
