"""Switches of the library and a memory format: nothing that a migration has to touch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.backends.cudnn.benchmark = True


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 3, 6, 6), torch.randint(2, (48,))), batch_size=8, shuffle=True)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
    net = net.to(memory_format=torch.channels_last)
    model = nn.DataParallel(net).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            x = x.cuda()
            loss = nn.functional.cross_entropy(model(x), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
