"""What is evaluated has the batch statistics of the first device."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def evaluate(model, loader):
    model.eval()
    right = seen = 0
    with torch.no_grad():
        for x, y in loader:
            right += (model(x.cuda()).argmax(1) == y.cuda()).sum().item()
            seen += len(y)
    return right / seen


def main():
    torch.manual_seed(0)
    train_loader = DataLoader(TensorDataset(torch.randn(48, 4), torch.randint(2, (48,))), batch_size=8, shuffle=True)
    test_loader = DataLoader(TensorDataset(3 * torch.randn(21, 4), torch.randint(2, (21,))), batch_size=5)
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2))
    model = nn.DataParallel(net).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best = 0.0
    for epoch in range(2):
        model.train()
        for x, y in train_loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        accuracy = evaluate(model, test_loader)
        if accuracy >= best:
            best = accuracy
            torch.save(model.state_dict(), "best.pt")
        print("accuracy", accuracy)


if __name__ == "__main__":
    main()
