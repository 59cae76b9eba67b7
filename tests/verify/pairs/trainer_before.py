"""A Trainer class; main() is called under no guard."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, data, batch_size):
        self.model = nn.DataParallel(model.cuda())
        self.loader = DataLoader(data, batch_size=batch_size, shuffle=True)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, 0.1, total_steps=3 * len(self.loader))

    def train_epoch(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.model(x.cuda()), y.cuda())
            loss.backward()
            self.optimizer.step()
            self.schedule.step()

    def fit(self, epochs):
        for _ in range(epochs):
            self.train_epoch()


def main():
    torch.manual_seed(5)
    data = TensorDataset(torch.randn(120, 4), torch.randn(120, 2))
    Trainer(nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)), data, 40).fit(3)


main()
