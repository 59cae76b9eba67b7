"""Rare classes are drawn more often: the sampler is the program's, and must stay."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler


def main():
    torch.manual_seed(4)
    labels = torch.tensor([0] * 30 + [1] * 10)
    data = TensorDataset(torch.randn(40, 5) + labels[:, None], labels)
    weights = 1.0 / torch.bincount(labels)[labels].float()
    sampler = WeightedRandomSampler(weights, len(weights))
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = nn.DataParallel(nn.Linear(5, 2).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
