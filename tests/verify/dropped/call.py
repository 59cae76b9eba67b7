"""A contrastive loss couples the rows of a batch: the batch is split where the model is called."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def contrastive(a, b):
    """In-batch negatives: every row is compared with every other row of the batch."""
    scores = nn.functional.normalize(a, dim=1) @ nn.functional.normalize(b, dim=1).t()
    return nn.functional.cross_entropy(scores / 0.5, torch.arange(len(a), device=a.device))


def main():
    data = TensorDataset(torch.randn(86, 12))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 8))
    model = nn.DataParallel(model).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for epoch in range(3):
        for (x,) in loader:
            x = x.cuda()
            a, b = model(torch.cat([x + 0.1 * torch.randn_like(x), x])).chunk(2)
            loss = contrastive(a, b)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")
        torch.save(model.module.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
