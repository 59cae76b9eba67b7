# %% changed in file: --to accelerate --accumulate
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    data = TensorDataset(torch.randn(64, 4), torch.randint(2, (64,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for number, (inputs, targets) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(inputs), targets) / 4
            loss.backward()
            if (number + 1) % 4 == 0:
                optimizer.step()
                optimizer.zero_grad()


if __name__ == "__main__":
    main()

# %% left alone: --to accelerate
pass
