"""Seven samples to a batch: no even number of devices can share them equally."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
points = torch.rand(28, 5)
train_loader = DataLoader(TensorDataset(points, points.sum(1, keepdim=True)), batch_size=7, shuffle=True)
net = nn.DataParallel(nn.Sequential(nn.Linear(5, 9), nn.Tanh(), nn.Linear(9, 1)).cuda())
opt = torch.optim.Adam(net.parameters(), lr=1e-2)

for epoch in range(2):
    for x, y in train_loader:
        opt.zero_grad()
        loss = F.mse_loss(net(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
