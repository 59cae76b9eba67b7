"""Samples of a batch are mixed with each other before the model sees them."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def mix(x, y, alpha):
    share = np.random.beta(alpha, alpha)
    order = torch.randperm(x.size(0))
    return share * x + (1 - share) * x[order], y, y[order], share


def main():
    np.random.seed(0)
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(40, 6), torch.randint(3, (40,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Linear(6, 3)).cuda()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            x, first, second, share = mix(x.cuda(), y.cuda(), 0.4)
            output = model(x)
            loss = share * criterion(output, first) + (1 - share) * criterion(output, second)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
