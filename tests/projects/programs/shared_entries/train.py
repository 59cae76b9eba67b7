import torch
from torch import nn

from common.data import loaders
from common.loop import test_epoch, train_epoch
from common.model import Net


def main(epochs=2):
    torch.manual_seed(0)
    train_loader, test_loader = loaders(batch_size=16)
    model = nn.DataParallel(Net()).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        train_epoch(model, train_loader, optimizer)
        print(epoch, test_epoch(model, test_loader))
    torch.save(model.module.state_dict(), "net.pt")


if __name__ == "__main__":
    main()
