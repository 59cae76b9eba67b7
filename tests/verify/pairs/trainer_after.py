"""The same with DistributedDataParallel."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Trainer:
    def __init__(self, model, data, batch_size):
        dist.init_process_group("nccl")
        rank, world = dist.get_rank(), dist.get_world_size()
        torch.cuda.set_device(rank)
        self.model = DistributedDataParallel(model.cuda(), device_ids=[rank])
        self.sampler = DistributedSampler(data)
        self.loader = DataLoader(data, batch_size=batch_size // world, sampler=self.sampler)
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
        for epoch in range(epochs):
            self.sampler.set_epoch(epoch)
            self.train_epoch()


def main():
    torch.manual_seed(5)
    data = TensorDataset(torch.randn(120, 4), torch.randn(120, 2))
    Trainer(nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)), data, 40).fit(3)
    dist.destroy_process_group()


main()
