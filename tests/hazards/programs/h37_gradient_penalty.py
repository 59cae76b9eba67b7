"""The gradient with respect to the inputs enters the loss."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def penalty(critic, points):
    points = points.clone().requires_grad_(True)
    scores = critic(points)
    (slope,) = torch.autograd.grad(scores.sum(), points, create_graph=True)
    return (slope.norm(dim=1) - 1).pow(2).mean()


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 4)), batch_size=8, shuffle=True)
    critic = nn.DataParallel(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))).cuda()
    optimizer = torch.optim.Adam(critic.parameters(), lr=0.01, betas=(0.5, 0.9))
    for epoch in range(2):
        for (real,) in loader:
            real = real.cuda()
            loss = critic(-real).mean() - critic(real).mean() + 10 * penalty(critic, real)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
