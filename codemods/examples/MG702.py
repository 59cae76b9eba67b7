# %% changed in file
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def accuracy(model, loader):
    model.eval()
    correct, total = 0, 0
    with torch.no_grad():
        for inputs, targets in loader:
            correct += (model(inputs).argmax(1) == targets).sum().item()
            total += targets.size(0)
    return correct / total


def main():
    data = TensorDataset(torch.randn(64, 4), torch.randint(2, (64,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    tests = DataLoader(TensorDataset(torch.randn(32, 4), torch.randint(2, (32,))), batch_size=16)
    model = nn.DataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        model.train()
        for inputs, targets in loader:
            loss = nn.functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("accuracy:", accuracy(model, tests))


if __name__ == "__main__":
    main()

# %% left alone
print("no evaluation")
