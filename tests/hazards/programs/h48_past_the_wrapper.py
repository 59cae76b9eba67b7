"""A method of the model is called behind the wrapper's back."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 8)
        self.head = nn.Linear(8, 2)

    def features(self, x):
        return torch.relu(self.body(x))

    def forward(self, x):
        return self.head(self.features(x))


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 6), torch.randint(2, (48,))), batch_size=8, shuffle=True)
    model = nn.DataParallel(Net()).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            hidden = model.module.features(x.cuda())
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda()) + 0.1 * hidden.pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
