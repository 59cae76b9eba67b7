"""An MLP with dropout; the last batch of an epoch is short."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(248, 10), torch.randint(0, 3, (248,)))
loader = DataLoader(data, batch_size=64, shuffle=True)
net = nn.DataParallel(nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 3)).cuda())
optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
for _ in range(3):
    for x, y in loader:
        loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
