"""The model counts its calls; DataParallel's replicas forget it."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Warming(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(5, 2)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.out(x) * min(1.0, 0.25 * self.calls)


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 5), torch.randn(48, 2)), batch_size=8, shuffle=True)
    model = nn.DataParallel(Warming()).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
