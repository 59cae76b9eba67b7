"""The loss learns its own centres, beside the model."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class CentreLoss(nn.Module):
    def __init__(self, classes, width):
        super().__init__()
        self.centres = nn.Parameter(torch.randn(classes, width))

    def forward(self, features, labels):
        return (features - self.centres[labels]).pow(2).sum(1).mean()


def main():
    torch.manual_seed(31)
    data = TensorDataset(torch.randn(48, 6), torch.randint(3, (48,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))).cuda()
    centre_loss = CentreLoss(3, 4).cuda()
    optimizer = torch.optim.SGD([*model.parameters(), *centre_loss.parameters()], lr=0.05)
    for epoch in range(2):
        for x, y in loader:
            loss = centre_loss(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
