"""Two losses of one forward pass go backward one after the other."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 6), torch.randn(48, 2)), batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            output, target = model(x.cuda()), y.cuda()
            optimizer.zero_grad()
            nn.functional.mse_loss(output, target).backward(retain_graph=True)
            (0.1 * output.abs().mean()).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
