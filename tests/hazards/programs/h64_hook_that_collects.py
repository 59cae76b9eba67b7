"""A hook writes down what a layer gives."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

seen = []


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 5), torch.randint(2, (48,))), batch_size=8, shuffle=True)
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
    net[0].register_forward_hook(lambda module, inputs, output: seen.append(output.detach().mean()))  # reported: MG316
    model = nn.DataParallel(net).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
