import torch
from torch.utils.data import Dataset


class Rings(Dataset):
    classes = 3

    def __init__(self, size, seed=0):
        draw = torch.Generator().manual_seed(seed)
        self.points = torch.randn(size, 2, generator=draw)
        self.labels = self.label(self.points)

    def label(self, points):
        return points.norm(dim=1).mul(1.5).long().clamp(max=self.classes - 1)

    def __len__(self):
        return len(self.points)

    def __getitem__(self, index):
        return self.points[index], self.labels[index]


class Stripes(Rings):
    classes = 4

    def label(self, points):
        return points[:, 0].mul(2).floor().long() % self.classes
