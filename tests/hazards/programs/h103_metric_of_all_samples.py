"""The metric needs the predictions of all samples at once."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def median_error(model, loader):
    model.eval()
    errors = []
    with torch.no_grad():
        for x, y in loader:
            errors.append((model(x.cuda()) - y.cuda()).abs().cpu())
    return torch.cat(errors).median().item()


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 4), torch.randn(48, 1)), batch_size=8, shuffle=True)
    test_loader = DataLoader(TensorDataset(torch.randn(18, 4), torch.randn(18, 1)), batch_size=4)
    model = nn.DataParallel(nn.Linear(4, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        model.train()
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("median error", median_error(model, test_loader))


if __name__ == "__main__":
    main()
