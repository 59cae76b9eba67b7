"""A checkpoint after every epoch, and a copy of the best."""

import shutil

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def save_checkpoint(state, is_best):
    torch.save(state, "last.pt")
    if is_best:
        shutil.copyfile("last.pt", "best.pt")


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 4), torch.randint(2, (48,))), batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 2)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    lowest = float("inf")
    for epoch in range(2):
        total = 0.0
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            total += loss.item()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        is_best = total < lowest
        lowest = min(total, lowest)
        save_checkpoint(
            {"epoch": epoch, "state_dict": model.state_dict(), "optimizer": optimizer.state_dict()}, is_best
        )


if __name__ == "__main__":
    main()
