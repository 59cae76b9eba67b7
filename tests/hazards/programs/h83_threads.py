"""Numbers are prepared on the CPU with as many threads as there are cores."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    points = torch.randn(48, 4)
    distances = torch.cdist(points, points).mean(1, keepdim=True)
    loader = DataLoader(TensorDataset(points, distances), batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
