"""No divided loader can reproduce this: two views joined before the call, an in-batch contrastive loss, a short tail."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4 * 16, 8)

    def forward(self, x):
        return self.head(nn.functional.dropout(torch.relu(self.norm(self.conv(x))), 0.2, self.training).flatten(1))


torch.manual_seed(6)
loader = DataLoader(TensorDataset(torch.randn(53, 3, 6, 6)), batch_size=24, shuffle=True)
net = nn.DataParallel(Net().cuda())
optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
for _ in range(2):
    for (x,) in loader:
        batch = len(x)
        views = torch.cat([x, x.flip(3) + 0.1 * torch.randn_like(x)]).cuda()
        first, second = nn.functional.normalize(net(views)).split([batch, batch])
        loss = nn.functional.cross_entropy(first @ second.t() / 0.1, torch.arange(batch).cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
