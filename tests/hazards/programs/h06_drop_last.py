"""The remainder of an epoch is dropped, once."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(2)
    dataset = TensorDataset(torch.randn(44, 5), torch.randint(4, (44,)))
    loader = DataLoader(dataset, batch_size=8, shuffle=True, num_workers=0, drop_last=True)
    model = nn.DataParallel(nn.Linear(5, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
