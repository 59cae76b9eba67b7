from torch import nn


class JointsLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.error = nn.MSELoss()

    def forward(self, output, target):
        return 0.5 * self.error(output, target)
