"""Mixed precision with a gradient scaler."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(48, 5), torch.randint(3, (48,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Linear(5, 3)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.CrossEntropyLoss()
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda"):
                output = model(x.cuda())
                loss = criterion(output, y.cuda())
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()


if __name__ == "__main__":
    main()
