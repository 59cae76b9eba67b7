import torch


def masked_error(estimate, sources, lengths):
    """Mean over the batch of each sample's mean squared error, without the padding."""
    steps = torch.arange(sources.size(2), device=sources.device)
    mask = (steps[None] < lengths[:, None]).float()[:, None]
    error = ((estimate - sources) * mask).pow(2).sum((1, 2))
    return (error / (2 * lengths)).mean()
