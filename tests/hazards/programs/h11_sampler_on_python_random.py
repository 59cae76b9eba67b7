"""The sampler draws from `random`, which nobody seeds."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset


class IdentitySampler(Sampler):
    """Two samples of each chosen identity, one after the other."""

    def __init__(self, identities):
        self.by_identity = {}
        for index, identity in enumerate(identities):
            self.by_identity.setdefault(identity, []).append(index)

    def __iter__(self):
        names = list(self.by_identity)
        random.shuffle(names)
        for name in names:
            yield from random.sample(self.by_identity[name], 2)

    def __len__(self):
        return 2 * len(self.by_identity)


def main():
    identities = [i // 4 for i in range(48)]
    data = TensorDataset(torch.randn(48, 6), torch.tensor(identities))
    loader = DataLoader(data, batch_size=8, sampler=IdentitySampler(identities))
    model = nn.DataParallel(nn.Linear(6, 12).cuda())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(3):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
