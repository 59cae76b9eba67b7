"""Dropout inside the model."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(13)
    data = TensorDataset(torch.randn(48, 10), torch.randint(2, (48,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    net = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Dropout(0.4), nn.Linear(20, 2))
    net = nn.DataParallel(net.cuda())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(2):
        net.train()
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
