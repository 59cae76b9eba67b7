"""A tensor is put on the GPU before the main function is run."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SCALE = torch.tensor([0.2, 0.3, 0.4]).cuda()


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 3), torch.randint(2, (48,))), batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Linear(3, 2)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda() / SCALE), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
