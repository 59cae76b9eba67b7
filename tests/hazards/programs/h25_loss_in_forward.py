"""The model gives its own loss: a vector with one number per device, whose mean is taken."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class WithLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 3))

    def forward(self, x, labels=None):
        scores = self.body(x)
        if labels is None:
            return scores
        return nn.functional.cross_entropy(scores, labels), scores


def main():
    torch.manual_seed(0)
    n_gpu = torch.cuda.device_count()
    data = TensorDataset(torch.randn(40, 6), torch.randint(3, (40,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = WithLoss().cuda()
    if n_gpu > 1:
        model = nn.DataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss, _ = model(x.cuda(), y.cuda())
            if n_gpu > 1:
                loss = loss.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
