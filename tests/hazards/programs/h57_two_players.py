"""A generator and a discriminator, each with its own optimizer."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 4) + 2), batch_size=8, shuffle=True)
    maker = nn.DataParallel(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4)).cuda())
    judge = nn.DataParallel(nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1)).cuda())
    criterion = nn.BCEWithLogitsLoss()
    maker_optimizer = torch.optim.Adam(maker.parameters(), lr=2e-3, betas=(0.5, 0.999))
    judge_optimizer = torch.optim.Adam(judge.parameters(), lr=2e-3, betas=(0.5, 0.999))
    for epoch in range(2):
        for (real,) in loader:
            real = real.cuda()
            ones, zeros = torch.ones(len(real), 1).cuda(), torch.zeros(len(real), 1).cuda()
            judge_optimizer.zero_grad()
            criterion(judge(real), ones).backward()
            fake = maker(torch.randn(len(real), 3).cuda())
            criterion(judge(fake.detach()), zeros).backward()
            judge_optimizer.step()
            maker_optimizer.zero_grad()
            criterion(judge(fake), ones).backward()
            maker_optimizer.step()


if __name__ == "__main__":
    main()
