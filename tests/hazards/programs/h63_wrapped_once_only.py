"""The model may be wrapped where it is made; where it is used, a test keeps it from being wrapped again."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def build(parallel):
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
    if parallel:
        net = nn.DataParallel(net)
    return net


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 5), torch.randint(2, (48,))), batch_size=8, shuffle=True)
    model = build(True)
    if not isinstance(model, nn.DataParallel):
        model = nn.DataParallel(model)
    model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
