"""Mixed precision under the names of earlier releases."""

import torch
from torch import nn
from torch.cuda.amp import GradScaler, autocast
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(32, 5), torch.randn(32, 2)), batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Linear(5, 2)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = GradScaler()
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            with autocast():
                loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()


if __name__ == "__main__":
    main()
