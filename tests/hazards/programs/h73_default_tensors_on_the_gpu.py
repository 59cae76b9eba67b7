"""New tensors are made on the GPU unless something else is said."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(48, 4), torch.randint(2, (48,)))
    torch.set_default_tensor_type("torch.cuda.FloatTensor")  # reported: MG317
    generator = torch.Generator(device="cuda")
    loader = DataLoader(data, batch_size=8, shuffle=True, generator=generator)
    model = nn.DataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            noise = torch.cuda.FloatTensor(x.size(0), 4).fill_(0.5)
            loss = nn.functional.cross_entropy(model(x.cuda() + noise), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
