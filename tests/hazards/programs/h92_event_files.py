"""Figures go to an event file and to a table."""

import csv

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.tensorboard import SummaryWriter


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 4), torch.randint(2, (48,))), batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 2)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    writer = SummaryWriter("events")
    table = open("rates.csv", "w")
    rows = csv.writer(table)
    for epoch in range(2):
        total = 0.0
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            total += loss.item()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        writer.add_scalar("loss", total / len(loader), epoch)
        rows.writerow([epoch, optimizer.param_groups[0]["lr"]])
    writer.close()
    table.close()


if __name__ == "__main__":
    main()
