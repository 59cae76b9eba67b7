"""The last batch of an epoch has fewer samples, and its share is not the same on every device."""

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(5)
    train_set = TensorDataset(torch.randn(27, 8), torch.randn(27, 2))
    train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)).cuda())
    optimizer = optim.SGD(model.parameters(), lr=0.05)
    criterion = nn.MSELoss()
    for epoch in range(2):
        for i, (x, target) in enumerate(train_loader):
            output = model(x.cuda())
            loss = criterion(output, target.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
