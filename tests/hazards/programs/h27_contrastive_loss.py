"""Every sample is compared with all others of its batch."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def contrast(features, labels, temperature=0.5):
    features = F.normalize(features)
    scores = features @ features.t() / temperature
    alone = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    same = (labels[:, None] == labels[None]) & ~alone
    log_prob = scores - torch.logsumexp(scores.masked_fill(alone, -1e9), 1, keepdim=True)
    return -(log_prob * same).sum() / same.sum().clamp(min=1)


def main():
    torch.manual_seed(17)
    data = TensorDataset(torch.randn(48, 6), torch.randint(3, (48,)))
    loader = DataLoader(data, batch_size=12, shuffle=True)
    encoder = nn.DataParallel(nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 5))).cuda()
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = contrast(encoder(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
