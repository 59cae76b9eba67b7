import torch
from torch.utils.data import DataLoader, TensorDataset

draw = torch.Generator().manual_seed(5)
stars = TensorDataset(torch.randn(64, 3, generator=draw), torch.randint(2, (64,), generator=draw))
TRAINING = DataLoader(stars, batch_size=16, shuffle=True)
