"""What is done to a model before it is wrapped."""

import torch
from torch import nn


def sync_batch_norm(model):
    """Normalise over the batches of all processes together (on GPUs; a CPU has no such layer)."""
    return nn.SyncBatchNorm.convert_sync_batchnorm(model) if torch.cuda.is_available() else model


def use_channels_last(model):
    """Lay images out channels last, as the GPU's convolutions like them: weights now, inputs as they come."""
    model.register_forward_pre_hook(to_channels_last)
    return model.to(memory_format=torch.channels_last)


def to_channels_last(module, inputs):
    """Change the layout of the images among the inputs of a model."""
    return tuple(
        x.contiguous(memory_format=torch.channels_last) if isinstance(x, torch.Tensor) and x.dim() == 4 else x
        for x in inputs
    )
