import torch
from torch.utils.data import Dataset


class KeypointSet(Dataset):
    def __init__(self, size, seed):
        draw = torch.Generator().manual_seed(seed)
        self.images = torch.rand(size, 3, 4, 4, generator=draw)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        return image, image.mean((0, 2))
