import torch
from torch.utils.data import DataLoader, TensorDataset


def make_loader(options):
    torch.manual_seed(11)
    points = torch.randn(96, 4) * torch.tensor([1.0, 2.0, 0.5, 1.5])
    return DataLoader(TensorDataset(points), batch_size=options.batch, shuffle=True, drop_last=True)
