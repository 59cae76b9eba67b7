"""The checkpoint holds the options as an object, and is read back."""

import argparse
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 4), torch.randint(2, (48,))), batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 2)).cuda()
    if os.path.exists("last.pt"):
        saved = torch.load("last.pt", map_location="cpu")
        model.load_state_dict(saved["model"])
        args = saved["args"]
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    torch.save({"model": model.state_dict(), "args": args}, "last.pt")


if __name__ == "__main__":
    main()
