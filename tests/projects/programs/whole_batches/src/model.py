from torch import nn


class Separator(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.encode = nn.Conv1d(1, width, 5, padding=2)
        self.decode = nn.Conv1d(width, 2, 5, padding=2)

    def forward(self, mixture):
        return self.decode(self.encode(mixture.unsqueeze(1)).relu())
