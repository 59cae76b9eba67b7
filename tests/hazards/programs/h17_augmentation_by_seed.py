"""Samples are flipped and shifted at random while they are loaded."""

import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Flipped(Dataset):
    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        if random.random() < 0.5:
            image = image.flip(-1)
        return image + 0.01 * torch.randn(()), index % 3


def main():
    random.seed(12)
    np.random.seed(12)
    torch.manual_seed(12)
    loader = DataLoader(Flipped(torch.randn(48, 6)), batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Linear(6, 3)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
