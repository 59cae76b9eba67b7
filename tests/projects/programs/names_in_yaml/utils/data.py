import torch
from torch.utils.data import DataLoader, TensorDataset


def build_loader(options):
    images = torch.randn(64, 3, 6, 6)
    heatmaps = torch.rand(64, 4, 6, 6)
    batch = options.batch_size_per_gpu * len(options.gpus)
    return DataLoader(TensorDataset(images, heatmaps), batch, shuffle=True)
