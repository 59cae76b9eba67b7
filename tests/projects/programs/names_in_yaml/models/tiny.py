from torch import nn


def get_net(section):
    return nn.Conv2d(3, 4, 3, padding=1)
