import torch
from torch import nn

criterion = nn.CrossEntropyLoss()


def train_epoch(model, loader, optimizer):
    model.train()
    for x, y in loader:
        loss = criterion(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def test_epoch(model, loader):
    model.eval()
    right = count = 0
    with torch.no_grad():
        for x, y in loader:
            right += (model(x.cuda()).argmax(1) == y.cuda()).sum().item()
            count += len(y)
    return right / count
