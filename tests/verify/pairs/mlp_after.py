"""The same with DistributedDataParallel."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.manual_seed(0)
data = TensorDataset(torch.randn(248, 10), torch.randint(0, 3, (248,)))
sampler = DistributedSampler(data, shuffle=True)
loader = DataLoader(data, batch_size=64 // world, sampler=sampler)
bare = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 3)).cuda()
net = DistributedDataParallel(bare, device_ids=[rank])
optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
dist.destroy_process_group()
