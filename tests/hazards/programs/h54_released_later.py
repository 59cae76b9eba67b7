"""The lower part is frozen for an epoch and released afterwards."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(5, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 5), torch.randint(2, (48,))), batch_size=8, shuffle=True)
    model = nn.DataParallel(Net()).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for parameter in model.module.body.parameters():
            parameter.requires_grad = epoch > 0
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
