"""The schedule is as long as the loader says."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 2


def main():
    torch.manual_seed(9)
    data = TensorDataset(torch.randn(36, 4), torch.randint(3, (36,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 3).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.4, total_steps=EPOCHS * len(loader))
    for epoch in range(EPOCHS):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
        print("rate", scheduler.get_last_lr()[0])


if __name__ == "__main__":
    main()
