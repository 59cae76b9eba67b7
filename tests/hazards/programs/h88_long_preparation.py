"""Something long is prepared once, before the training needs it."""

import os

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def prepare(path):
    table = np.zeros((48, 5), dtype=np.float32)
    for row in range(48):
        table[row] = np.cos(np.arange(5) * row)
    np.save(path, table)


def main():
    torch.manual_seed(0)
    if not os.path.exists("table.npy"):
        prepare("table.npy")
    table = torch.from_numpy(np.load("table.npy"))
    loader = DataLoader(TensorDataset(table[:, :4], table[:, 4:]), batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
