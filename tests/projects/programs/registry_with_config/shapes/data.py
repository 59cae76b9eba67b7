import torch
from torch.utils.data import Dataset

from .registry import DATASETS


@DATASETS.register
class Blobs(Dataset):
    def __init__(self, size):
        self.labels = torch.arange(size) % 3
        self.points = torch.randn(size, 5) + self.labels[:, None]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {"x": self.points[index], "y": self.labels[index]}
