"""No validation sample may count twice, however many devices there are."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def validate(model, loader):
    model.eval()
    correct = 0
    total = 0
    with torch.no_grad():
        for x, y in loader:
            predicted = model(x.cuda()).argmax(1)
            correct += (predicted == y.cuda()).sum().item()
            total += y.size(0)
    return correct / total


def main():
    torch.manual_seed(6)
    train_loader = DataLoader(TensorDataset(torch.randn(32, 4), torch.randint(3, (32,))), batch_size=8, shuffle=True)
    val_loader = DataLoader(TensorDataset(torch.randn(13, 4), torch.randint(3, (13,))), batch_size=4)
    model = nn.DataParallel(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        model.train()
        for x, y in train_loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("accuracy %.4f" % validate(model, val_loader))


if __name__ == "__main__":
    main()
