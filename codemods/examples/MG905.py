# %% told
from importlib.metadata import entry_points

import torch
from torch import nn


def main():
    source = next(iter(entry_points(group="data"))).load()()
    model = nn.DataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in source:
        loss = nn.functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()

# %% left alone
accuracy = (model(inputs).argmax(1) == targets).float().mean()
