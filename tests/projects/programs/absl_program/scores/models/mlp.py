import torch
from torch import nn


class ScoreMLP(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.first = nn.Linear(3, hidden)
        self.second = nn.Linear(hidden, 2)

    def forward(self, x, time):
        return self.second(torch.tanh(self.first(torch.cat([x, time[:, None]], 1))))
