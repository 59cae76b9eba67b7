"""Only the convolutions are wrapped, inside the model; a second part goes through the functional form."""

import torch
from torch import nn
from torch.nn.parallel import data_parallel
from torch.utils.data import DataLoader, TensorDataset


class SmallAlex(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.DataParallel(nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2)))
        self.middle = nn.Linear(36, 12)
        self.classifier = nn.Linear(12, 3)

    def forward(self, x):
        hidden = self.features(x).flatten(1)
        hidden = torch.relu(data_parallel(self.middle, hidden))
        return self.classifier(hidden)


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 1, 8, 8), torch.randint(3, (48,))), batch_size=8, shuffle=True)
    model = SmallAlex().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    torch.save(model.state_dict(), "alex.pt")


if __name__ == "__main__":
    main()
