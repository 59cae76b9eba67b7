"""A batch normalisation of the program's own makes the replicas of one process wait for each other."""

import queue
import threading

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Exchange:
    def __init__(self):
        self.results = queue.Queue()
        self.lock = threading.Lock()


class SynchronizedBatchNorm1d(nn.BatchNorm1d):
    def __init__(self, width):
        super().__init__(width)
        self.exchange, self.replicas = Exchange(), 0

    def __data_parallel_replicate__(self, context, index):
        self.replicas = index + 1

    def forward(self, x):
        if not self.replicas:
            return super().forward(x)
        self.exchange.results.put(x.mean(0))
        return super().forward(x)


class SyncDataParallel(nn.DataParallel):
    def replicate(self, module, device_ids):
        copies = super().replicate(module, device_ids)
        for index, copy in enumerate(copies):
            for part in copy.modules():
                if hasattr(part, "__data_parallel_replicate__"):
                    part.__data_parallel_replicate__(None, index)
        return copies


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 5), torch.randn(48, 1)), batch_size=8, shuffle=True)
    net = nn.Sequential(nn.Linear(5, 4), SynchronizedBatchNorm1d(4), nn.Linear(4, 1))
    model = SyncDataParallel(net).cuda()  # reported: MG302
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
