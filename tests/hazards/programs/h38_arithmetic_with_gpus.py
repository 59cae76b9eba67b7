"""The batch is said per GPU, and the program multiplies."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PER_GPU = 4


def main():
    torch.manual_seed(0)
    n_gpu = torch.cuda.device_count()
    batch_size = PER_GPU * max(1, n_gpu)
    data = TensorDataset(torch.randn(48, 5), torch.randint(3, (48,)))
    loader = DataLoader(data, batch_size=batch_size, shuffle=True)
    model = nn.DataParallel(nn.Linear(5, 3).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05 * n_gpu)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
