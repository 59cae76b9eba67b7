"""The program's own distributed branch uses an argument that was renamed."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def wrap(model):
    if os.environ.get("USE_DDP"):
        dist.init_process_group("gloo")  # reported: MG103
        return nn.parallel.DistributedDataParallel(model, broadcast_buffers=False)
    return nn.DataParallel(model)


torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(32, 4), torch.randn(32, 1)), batch_size=8, shuffle=True)
model = wrap(nn.Linear(4, 1).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
