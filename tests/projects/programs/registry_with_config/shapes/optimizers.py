import torch

from .registry import OPTIMIZERS

OPTIMIZERS.register(torch.optim.SGD)
OPTIMIZERS.register(torch.optim.AdamW)
