"""Weights are divided by their norm, which buffers follow."""

import torch
from torch import nn
from torch.nn.utils import spectral_norm
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 5), torch.randn(48, 1)), batch_size=8, shuffle=True)
    net = nn.Sequential(spectral_norm(nn.Linear(5, 8)), nn.ReLU(), nn.Linear(8, 1))
    model = nn.DataParallel(net).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        model.train()
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
