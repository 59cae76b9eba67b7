"""The same with DistributedDataParallel."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(rank)
torch.manual_seed(4)
data = TensorDataset(torch.randn(96, 12))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=24 // world, sampler=sampler)
maker = nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 12)).cuda()
critic = nn.Sequential(nn.Linear(12, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)).cuda()
maker = DistributedDataParallel(maker, device_ids=[rank])
critic = DistributedDataParallel(critic, device_ids=[rank])
torch.manual_seed(4 + rank)
step_maker = torch.optim.Adam(maker.parameters(), 1e-3, betas=(0.5, 0.999))
step_critic = torch.optim.Adam(critic.parameters(), 1e-3, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
for epoch in range(3):
    sampler.set_epoch(epoch)
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
dist.destroy_process_group()
