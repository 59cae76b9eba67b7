"""A distributed branch of the program's own names a backend that not every machine has."""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(0)
    if args.nodes > 1:
        dist.init_process_group("nccl", init_method="tcp://localhost:29512", rank=0, world_size=1)  # reported: MG103
    loader = DataLoader(TensorDataset(torch.randn(48, 4), torch.randint(2, (48,))), batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 2)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
