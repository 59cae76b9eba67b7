"""Batches come from a stream without an end, and the program counts its steps."""

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        position = 0
        while True:
            point = torch.linspace(0, 1, 5) + position % 7
            yield point, point.sum()
            position += 1


def main():
    torch.manual_seed(7)
    batches = iter(DataLoader(Stream(), batch_size=8))
    model = nn.DataParallel(nn.Linear(5, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    step = 0
    while True:
        x, y = next(batches)
        loss = nn.functional.mse_loss(model(x.cuda()).squeeze(1), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step == 6:
            break


if __name__ == "__main__":
    main()
