"""Samples are drawn by weight: the batches stay, and each process loads its part of each."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

torch.manual_seed(3)
labels = torch.randint(0, 3, (128,))
data = TensorDataset(torch.randn(128, 10), labels)
weights = 1.0 / torch.bincount(labels).float()[labels]
sampler = WeightedRandomSampler(weights, 96)
loader = DataLoader(data, batch_size=16, sampler=sampler)
model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3)).cuda()
model = nn.DataParallel(model)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(3):
    for x, y in loader:
        loss = criterion(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: train loss {loss.item():.4f}")
torch.save(model.state_dict(), "model.pt")
