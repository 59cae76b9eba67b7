"""The model gives back named parts, one of which only the second half of the training uses."""

from collections import namedtuple

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

Output = namedtuple("Output", ["scores", "extra"])


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(5, 8)
        self.main = nn.Linear(8, 3)
        self.side = nn.Linear(8, 3)

    def forward(self, x):
        hidden = torch.relu(self.body(x))
        return Output(self.main(hidden), self.side(hidden))


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 5), torch.randint(3, (48,))), batch_size=8, shuffle=True)
    model = nn.DataParallel(TwoHeads()).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(2):
        for x, y in loader:
            output = model(x.cuda())
            loss = nn.functional.cross_entropy(output.scores, y.cuda())
            if epoch > 0:
                loss = loss + 0.4 * nn.functional.cross_entropy(output.extra, y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
