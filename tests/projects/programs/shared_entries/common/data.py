import torch
from torch.utils.data import DataLoader, TensorDataset


def loaders(batch_size):
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(96, 4, generator=draw)
    y = (x.sum(1) > 0).long()
    train, test = TensorDataset(x[:64], y[:64]), TensorDataset(x[64:], y[64:])
    train_loader = DataLoader(train, batch_size=batch_size, shuffle=True)
    test_loader = DataLoader(test, batch_size=batch_size)
    return train_loader, test_loader
