import os

import torch
from torch import nn

from common.data import loaders
from common.loop import train_epoch
from common.model import Net


def main():
    torch.manual_seed(0)
    train_loader, _ = loaders(batch_size=8)
    net = Net()
    if os.path.exists("net.pt"):
        net.load_state_dict(torch.load("net.pt"))
    for parameter in net.body.parameters():
        parameter.requires_grad = False
    model = nn.DataParallel(net).cuda()
    optimizer = torch.optim.SGD(model.module.head.parameters(), lr=0.01)
    for epoch in range(2):
        train_epoch(model, train_loader, optimizer)
    torch.save(model.module.state_dict(), "tuned.pt")


if __name__ == "__main__":
    main()
