"""A classifier with augmentation, BatchNorm, evaluation, a schedule, a log and checkpoints: its loader can be sharded."""

import argparse
import os
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, count, train):
        generator = torch.Generator().manual_seed(count)
        self.images = torch.randn(count, 3, 8, 8, generator=generator)
        self.labels = torch.randint(0, 4, (count,), generator=generator)
        self.train = train

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image = self.images[i]
        if self.train and random.random() < 0.5:
            image = image.flip(2)
        return image, self.labels[i]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


def train(model, loader, criterion, optimizer):
    model.train()
    total, seen = 0.0, 0
    for images, labels in loader:
        images, labels = images.cuda(), labels.cuda()
        loss = criterion(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * images.size(0)
        seen += images.size(0)
    return total / seen


def evaluate(model, loader):
    model.eval()
    correct, count = 0, 0
    with torch.no_grad():
        for images, labels in loader:
            output = model(images.cuda())
            correct += (output.argmax(1) == labels.cuda()).sum().item()
            count += labels.size(0)
    return correct / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--out", default="runs")
    args = parser.parse_args()
    if not os.path.exists(args.out):
        os.makedirs(args.out)
    train_loader = DataLoader(Images(96, True), batch_size=16, shuffle=True, num_workers=0)
    test_loader = DataLoader(Images(40, False), batch_size=16, shuffle=False)
    model = Net().cuda()
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)
    criterion = nn.CrossEntropyLoss().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    best = 0.0
    log = open(os.path.join(args.out, "log.txt"), "w")
    for epoch in range(args.epochs):
        loss = train(model, train_loader, criterion, optimizer)
        accuracy = evaluate(model, test_loader)
        scheduler.step()
        print(f"epoch {epoch}: train loss {loss:.4f}, accuracy {accuracy:.4f}")
        log.write(f"{epoch} {loss} {accuracy}\n")
        log.flush()
        if accuracy > best:
            best = accuracy
            torch.save(model.state_dict(), os.path.join(args.out, "best.pt"))
    torch.save({"model": model.module.state_dict()}, os.path.join(args.out, "last.pt"))


if __name__ == "__main__":
    main()
