"""The criterion is wrapped as well, and gives one number per device."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Distance(nn.Module):
    def forward(self, output, target):
        return (output - target).abs().mean()


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(48, 4), torch.randn(48, 2))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 2)).cuda()
    criterion = nn.DataParallel(Distance()).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = criterion(model(x.cuda()), y.cuda()).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
