"""The last batch holds one sample: the other devices have nothing to do, and the loss divides by weights."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(11)
    x, y = torch.randn(25, 4), torch.randint(3, (25,))
    loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
    weights = torch.tensor([1.0, 4.0, 0.5]).cuda()
    criterion = nn.CrossEntropyLoss(weight=weights)
    model = nn.DataParallel(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for inputs, targets in loader:
            loss = criterion(model(inputs.cuda()), targets.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print("loss", loss.item())


if __name__ == "__main__":
    main()
