# %% beside steps.py
def train_epoch(model, loader, criterion, optimizer):
    for inputs, targets in loader:
        loss = criterion(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

# %% changed in file: --to accelerate
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from steps import train_epoch


def main():
    data = TensorDataset(torch.randn(64, 4), torch.randint(2, (64,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 2))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        train_epoch(model, loader, criterion, optimizer)


if __name__ == "__main__":
    main()

# %% left alone: --to accelerate
pass
