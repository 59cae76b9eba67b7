"""Layers are computed again in the backward pass to save memory."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 8)
        self.block = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        hidden = torch.relu(self.first(x))
        hidden = checkpoint(self.block, hidden)
        return self.last(hidden)


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 5), torch.randint(2, (48,))), batch_size=8, shuffle=True)
    model = nn.DataParallel(Deep()).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
