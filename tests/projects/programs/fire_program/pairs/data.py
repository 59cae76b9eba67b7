import torch
from torch.utils.data import DataLoader, Dataset


class TwoViews(Dataset):
    def __init__(self, size=64):
        self.base = torch.randn(size, 8)

    def __len__(self):
        return len(self.base)

    def __getitem__(self, index):
        return tuple(self.base[index] + 0.1 * torch.randn(8) for _ in range(2))


def pairs(batch_size):
    return DataLoader(TwoViews(), batch_size=batch_size, shuffle=True, drop_last=True)
