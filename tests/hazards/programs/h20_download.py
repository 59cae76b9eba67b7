"""The data set is fetched when it is not there yet."""

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def main():
    torch.manual_seed(1)
    to_tensor = transforms.ToTensor()
    train_set = datasets.MNIST("data", train=True, download=True, transform=to_tensor)
    test_set = datasets.MNIST("data", train=False, transform=to_tensor)
    train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=16)
    model = nn.DataParallel(nn.Sequential(nn.Flatten(), nn.Linear(784, 10))).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        model.train()
        for x, y in train_loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        hits = 0
        with torch.no_grad():
            for x, y in test_loader:
                hits += (model(x.cuda()).argmax(1) == y.cuda()).sum().item()
        print("hits", hits)


if __name__ == "__main__":
    main()
