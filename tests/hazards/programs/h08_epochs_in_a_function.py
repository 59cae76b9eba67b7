"""The loop over batches is in a function of its own, the loop over epochs is elsewhere."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def one_epoch(model, batches, optimizer):
    for x, y in batches:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
        loss.backward()
        optimizer.step()


def main():
    torch.manual_seed(8)
    train_set = TensorDataset(torch.randn(40, 4), torch.randint(2, (40,)))
    train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
    model = torch.nn.DataParallel(nn.Linear(4, 2).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(1, 4):
        one_epoch(model, train_loader, optimizer)
        print("epoch", epoch)


if __name__ == "__main__":
    main()
