import torch
from torch.utils.data import DataLoader, TensorDataset

vocabulary = list("abcdefghij ")


def make_batches(batch_size, epoch):
    draw = torch.Generator().manual_seed(100)
    lines = torch.randint(len(vocabulary), (64, 9), generator=draw)
    return DataLoader(TensorDataset(lines[:, :-1], lines[:, 1:]), batch_size=batch_size, shuffle=True, drop_last=True)
