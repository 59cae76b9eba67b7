"""A network with batch statistics is called twice before one backward pass."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 5), torch.randn(48, 5)), batch_size=8, shuffle=True)
    twin = nn.DataParallel(nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))).cuda()
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
    for epoch in range(2):
        for left, right in loader:
            distance = (twin(left.cuda()) - twin(right.cuda())).pow(2).sum(1)
            loss = (1 - distance).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
