"""Gradients of two batches are accumulated per step; the loss is scaled, as for float16."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
data = TensorDataset(torch.randn(256, 6), torch.randn(256, 1))
loader = DataLoader(data, batch_size=32, shuffle=True)
net = nn.DataParallel(nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 1))).cuda()
optimizer = torch.optim.Adam(net.parameters(), 1e-2)
scaler = torch.amp.GradScaler("cuda")
for _ in range(3):
    for i, (x, y) in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.mse_loss(net(x.cuda()), y.cuda()) / 2
        scaler.scale(loss).backward()
        if (i + 1) % 2 == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
