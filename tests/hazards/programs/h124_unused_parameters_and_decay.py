"""A parameter that the forward pass leaves out still shrinks by weight decay."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.used = nn.Linear(5, 2)
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, x):
        return self.used(x)


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 5), torch.randint(2, (48,))), batch_size=8, shuffle=True)
    model = nn.DataParallel(Net()).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
