"""A batch whose loss is not a number is left out."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    x = torch.randn(48, 5)
    x[5] = float("nan")
    loader = DataLoader(TensorDataset(x, torch.randn(48, 1)), batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Linear(5, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    skipped = 0
    for epoch in range(2):
        for inputs, targets in loader:
            loss = nn.functional.mse_loss(model(inputs.cuda()), targets.cuda())
            if torch.isnan(loss):
                skipped += 1
                continue
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print("skipped", skipped)


if __name__ == "__main__":
    main()
