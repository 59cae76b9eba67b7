import torch
from torch import nn

from common.data import loaders
from common.loop import test_epoch
from common.model import Net


def main():
    _, test_loader = loaders(batch_size=32)
    model = nn.DataParallel(Net()).cuda()
    model.module.load_state_dict(torch.load("net.pt"))
    print("accuracy", test_epoch(model, test_loader))


if __name__ == "__main__":
    main()
