"""A distributed branch of the program's own already shares out the data."""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--distributed", action="store_true")
args = parser.parse_args()

torch.manual_seed(0)
data = TensorDataset(torch.randn(32, 4), torch.randint(2, (32,)))
model = nn.Linear(4, 2).cuda()
if args.distributed:
    dist.init_process_group("nccl")  # reported: MG103
    model = nn.parallel.DistributedDataParallel(model)
    sampler = DistributedSampler(data)
else:
    model = nn.DataParallel(model)
    sampler = None
loader = DataLoader(data, batch_size=8, shuffle=sampler is None, sampler=sampler)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
