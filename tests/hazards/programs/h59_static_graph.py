"""A private switch of DistributedDataParallel in the program's own branch."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
net = nn.Linear(4, 1).cuda()
if "--ddp" in sys.argv:
    torch.distributed.init_process_group("gloo")  # reported: MG103
    net = nn.parallel.DistributedDataParallel(net)
    net._set_static_graph()
else:
    net = nn.DataParallel(net)
loader = DataLoader(TensorDataset(torch.randn(32, 4), torch.randn(32, 1)), batch_size=8, shuffle=True)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        loss = nn.functional.mse_loss(net(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
