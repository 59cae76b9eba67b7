import functools


@functools.lru_cache
def samples():
    import torch

    x = torch.randn(48, 3, generator=torch.Generator().manual_seed(9))
    return torch.utils.data.TensorDataset(x, x[:, :2].cos())


def open_loader(batch):
    from torch.utils.data import DataLoader

    return DataLoader(samples(), batch_size=batch, shuffle=True)
