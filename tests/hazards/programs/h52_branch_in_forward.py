"""Which part of the model runs depends on the samples."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.calm = nn.Linear(5, 2)
        self.wild = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, x):
        if x.abs().max() > 2.2:
            return self.wild(x)
        return self.calm(x)


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 5), torch.randint(2, (48,))), batch_size=8, shuffle=True)
    model = nn.DataParallel(Gated()).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
