"""Two networks with BatchNorm, two Adams, noise drawn in the loop, batches flipped at random."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(4)
loader = DataLoader(TensorDataset(torch.randn(96, 12)), batch_size=24, shuffle=True)
maker = nn.DataParallel(nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 12))).cuda()
critic = nn.DataParallel(nn.Sequential(nn.Linear(12, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))).cuda()
step_maker = torch.optim.Adam(maker.parameters(), 1e-3, betas=(0.5, 0.999))
step_critic = torch.optim.Adam(critic.parameters(), 1e-3, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
for _ in range(3):
    for (real,) in loader:
        real = real.cuda()
        ones, zeros = torch.ones(len(real), 1).cuda(), torch.zeros(len(real), 1).cuda()
        fake = maker(torch.randn(len(real), 5, device="cuda"))
        critic.zero_grad()
        criterion(critic(real), ones).backward()
        criterion(critic(fake.detach()), zeros).backward()
        step_critic.step()
        maker.zero_grad()
        criterion(critic(fake), ones).backward()
        step_maker.step()
