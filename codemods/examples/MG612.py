# %% changed
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features, self.classifier = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.classifier(torch.relu(self.features(x)))


def main():
    data = TensorDataset(torch.randn(64, 4), torch.randint(2, (64,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = Net()
    model.features = nn.DataParallel(model.features)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.load_state_dict(torch.load("old.pt"))
    for epoch in range(2):
        for inputs, targets in loader:
            loss = criterion(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()

# %% left alone in setup
model.load_state_dict(torch.load("old.pt"))
