"""Evaluation runs the wrapped model, without saying that no gradients are needed."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 4), torch.randint(2, (48,))), batch_size=8, shuffle=True)
    test_loader = DataLoader(TensorDataset(torch.randn(18, 4), torch.randint(2, (18,))), batch_size=4)
    model = nn.DataParallel(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2))).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        model.train()
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        right = 0
        for x, y in test_loader:
            right += (model(x.cuda()).argmax(1) == y.cuda()).sum().item()
        print("right", right)


if __name__ == "__main__":
    main()
