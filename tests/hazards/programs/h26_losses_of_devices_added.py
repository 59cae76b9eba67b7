"""The model gives its own loss, and the losses of the devices are added by their gradients."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(8, 3)
        self.decode = nn.Linear(3, 8)

    def forward(self, x):
        return (self.decode(torch.tanh(self.encode(x))) - x).pow(2).mean().unsqueeze(0)


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 8)), batch_size=8, shuffle=True)
    model = nn.DataParallel(Autoencoder()).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for (x,) in loader:
            losses = model(x.cuda())
            optimizer.zero_grad()
            losses.backward(torch.ones(torch.cuda.device_count()).cuda())
            optimizer.step()


if __name__ == "__main__":
    main()
