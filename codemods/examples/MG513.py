# %% told in file
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    data = TensorDataset(torch.randn(64, 4), torch.randint(2, (64,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for inputs, targets in loader:
            optimizer.zero_grad()
            try:
                loss = nn.functional.cross_entropy(model(inputs), targets)
                loss.backward()
            except RuntimeError:
                continue
            optimizer.step()


if __name__ == "__main__":
    main()

# %% left alone
try:
    print(epoch)
except RuntimeError:
    pass
