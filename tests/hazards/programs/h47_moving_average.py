"""A copy of the wrapped model follows it slowly, and is what gets evaluated."""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def follow(slow, fast, rate=0.9):
    with torch.no_grad():
        for old, new in zip(slow.parameters(), fast.parameters()):
            old.mul_(rate).add_(new, alpha=1 - rate)


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 5), torch.randint(2, (48,))), batch_size=8, shuffle=True)
    probe = torch.randn(10, 5)
    model = nn.DataParallel(nn.Linear(5, 2)).cuda()
    slow = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            follow(slow, model)
        with torch.no_grad():
            print("average", slow(probe.cuda()).sum().item())
    torch.save(slow.module.state_dict(), "average.pt")


if __name__ == "__main__":
    main()
