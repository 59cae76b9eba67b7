from torch import nn


class PoseNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        self.heatmaps = nn.Conv2d(width, 4, 1)

    def forward(self, image):
        return self.heatmaps(self.layers(image))


def get_net(section):
    return PoseNet(section.width)
