"""Early stopping, a plateau schedule, a bound on the loss and a bound on the time."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

HOURS = 1.0


def main():
    torch.manual_seed(0)
    start = time.time()
    loader = DataLoader(TensorDataset(torch.randn(48, 4), torch.randn(48, 1)), batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    best, waited = float("inf"), 0
    for epoch in range(4):
        total = 0.0
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
            if loss.item() > 100:
                break
            total += loss.item()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scheduler.step(total)
        if total < best:
            best, waited = total, 0
        else:
            waited += 1
        if waited > 1:
            break
        if time.time() - start > HOURS * 3600:
            break


if __name__ == "__main__":
    main()
