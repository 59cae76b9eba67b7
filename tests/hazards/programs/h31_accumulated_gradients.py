"""A step is taken after every second batch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EVERY = 2


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 5), torch.randint(3, (64,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Linear(5, 3)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.CrossEntropyLoss()
    optimizer.zero_grad()
    for epoch in range(2):
        for i, (x, y) in enumerate(loader):
            loss = criterion(model(x.cuda()), y.cuda()) / EVERY
            loss.backward()
            if (i + 1) % EVERY == 0:
                optimizer.step()
                optimizer.zero_grad()


if __name__ == "__main__":
    main()
