"""The same with DistributedDataParallel, without a needless synchronisation."""

import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(rank)
torch.manual_seed(3)
data = TensorDataset(torch.randn(256, 6), torch.randn(256, 1))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=32 // world, sampler=sampler)
net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 1)).cuda()
net = DistributedDataParallel(net, device_ids=[rank])
optimizer = torch.optim.Adam(net.parameters(), 1e-2)
scaler = torch.amp.GradScaler("cuda")
for epoch in range(3):
    sampler.set_epoch(epoch)
    for i, (x, y) in enumerate(loader):
        last = (i + 1) % 2 == 0
        with contextlib.nullcontext() if last else net.no_sync():
            with torch.autocast("cuda", dtype=torch.float16):
                loss = nn.functional.mse_loss(net(x.cuda()), y.cuda()) / 2
            scaler.scale(loss).backward()
        if last:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
dist.destroy_process_group()
