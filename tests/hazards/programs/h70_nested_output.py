"""The model gives a dictionary with lists and a place that is empty."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Pyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.levels = nn.ModuleList([nn.Linear(5, 5), nn.Linear(5, 5)])
        self.out = nn.Linear(5, 2)

    def forward(self, x):
        maps = []
        for level in self.levels:
            x = torch.relu(level(x))
            maps.append(x)
        return {"scores": self.out(x), "maps": maps, "mask": None}


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 5), torch.randint(2, (48,))), batch_size=8, shuffle=True)
    model = nn.DataParallel(Pyramid()).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            output = model(x.cuda())
            loss = nn.functional.cross_entropy(output["scores"], y.cuda())
            loss = loss + 0.01 * sum(m.abs().mean() for m in output["maps"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
