"""A table that is no part of the batch is repeated once per device, so that each device gets all of it."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Lookup(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(5, 4)

    def forward(self, x, table, names=None):
        return self.query(x) @ table.t()


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 5), torch.randint(3, (48,))), batch_size=8, shuffle=True)
    table = torch.randn(3, 4).cuda()
    model = nn.DataParallel(Lookup()).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            copies = table.repeat(torch.cuda.device_count(), 1)
            loss = nn.functional.cross_entropy(model(x.cuda(), copies, ["a", "b", "c"]), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
