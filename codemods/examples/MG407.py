# %% changed in file: --sampling call
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Centres(nn.Module):
    def __init__(self):
        super().__init__()
        self.centres = nn.Parameter(torch.zeros(2, 4))

    def forward(self, features, targets):
        return (features - self.centres[targets]).pow(2).mean()


def main():
    data = TensorDataset(torch.randn(64, 4), torch.randint(2, (64,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    body = nn.DataParallel(nn.Linear(4, 4))
    criterion = Centres()
    optimizer = torch.optim.SGD([*body.parameters(), *criterion.parameters()], lr=0.1)
    for epoch in range(2):
        for inputs, targets in loader:
            loss = criterion(body(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()

# %% left alone: --sampling call
pass
