"""Somebody may want the batch per GPU to stay: a policy, and not what happens by itself."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH = 12


def train(model, loader, optimizer, scheduler):
    model.train()
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            loss.backward()
            optimizer.step()
        scheduler.step()


def main():
    torch.manual_seed(3)
    data = TensorDataset(torch.randn(48, 4), torch.randint(2, (48,)))
    loader = DataLoader(data, BATCH, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 2)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    train(model, loader, optimizer, scheduler)


if __name__ == "__main__":
    main()
