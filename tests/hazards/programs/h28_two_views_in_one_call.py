"""Two views are joined before the call and taken apart after it."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(3)
    loader = DataLoader(TensorDataset(torch.randn(32, 6)), batch_size=8, shuffle=True)
    net = nn.Sequential(nn.Linear(6, 10), nn.BatchNorm1d(10), nn.ReLU(), nn.Linear(10, 4))
    net = nn.DataParallel(net).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for epoch in range(2):
        for (x,) in loader:
            bsz = x.shape[0]
            views = torch.cat([x, x.flip(1)], dim=0).cuda()
            features = net(views)
            one, two = torch.split(features, [bsz, bsz], dim=0)
            loss = nn.functional.mse_loss(one, two) + 0.1 * (1 - one.std(0)).relu().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
