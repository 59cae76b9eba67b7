"""The DataParallel program whose forms are compared, as its users have it, and what programs by hand have in common with it."""

COMMON = """\
import argparse
import os

import torch
{imports}
from torch import nn
from torch.utils.data import DataLoader, TensorDataset{samplers}


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.Dropout(0.1)
        )

    def forward(self, x):
        return x + self.body(x)


class Net(nn.Module):
    def __init__(self, width=24, depth=6):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(*[Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean(dim=(2, 3)))


def images(count):
    return TensorDataset(torch.randn(count, 3, 32, 32), torch.randint(10, (count,)))
"""
# The program as its users have it.
ORIGINAL = (
    COMMON.format(imports="", samplers="").replace("torch\n\nfrom", "torch\nfrom")
    + """

def evaluate(model, loader, device):
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for inputs, targets in loader:
            inputs, targets = inputs.to(device), targets.to(device)
            correct += (model(inputs).argmax(1) == targets).sum().item()
            total += targets.size(0)
    return correct / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_set, test_set = images(256), images(64)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
    test_loader = DataLoader(test_set, batch_size=args.batch_size)
    model = nn.DataParallel(Net()).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    best = 0.0
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for inputs, targets in train_loader:
            inputs, targets = inputs.to(device), targets.to(device)
            loss = criterion(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        scheduler.step()
        accuracy = evaluate(model, test_loader, device)
        print(f"epoch {epoch}: loss {total / len(train_loader):.4f}, accuracy {accuracy:.4f}")
        if accuracy >= best:
            best = accuracy
            torch.save(model.state_dict(), "best.pt")


if __name__ == "__main__":
    main()
"""
)
