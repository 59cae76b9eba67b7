from prelude import *


class Mix(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, width)

    def forward(self, x):
        past = x.cumsum(1) / torch.arange(1, x.size(1) + 1, device=x.device)[None, :, None]
        return x + torch.sigmoid(self.gate(x)) * past
