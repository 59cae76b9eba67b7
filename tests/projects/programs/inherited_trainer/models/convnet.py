from torch import nn


class ConvNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Linear(width * 16, 10)

    def forward(self, image):
        return self.head(self.features(image).flatten(1))
