import torch.nn.functional as F
from torch import nn

from .registry import MODELS


@MODELS.register
class TwoLayer(nn.Module):
    """Gives its loss while it trains, and the classes otherwise."""

    def __init__(self, hidden):
        super().__init__()
        self.first = nn.Linear(5, hidden)
        self.second = nn.Linear(hidden, 3)

    def forward(self, x, y=None):
        out = self.second(F.relu(self.first(x)))
        if y is None:
            return out.argmax(1)
        return F.cross_entropy(out, y)


@MODELS.register
class OneLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.only = nn.Linear(5, 3)

    def forward(self, x, y=None):
        out = self.only(x)
        return out.argmax(1) if y is None else F.cross_entropy(out, y)
