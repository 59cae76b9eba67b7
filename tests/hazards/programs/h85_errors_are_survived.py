"""A batch that does not fit is left out; a training that is interrupted is saved."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Picky(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        if (x[:, 0] > 2.0).any():
            raise RuntimeError("out of memory")
        return self.out(x)


def train(model, loader, optimizer):
    for epoch in range(2):
        for x, y in loader:
            try:  # reported: MG513
                loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            except RuntimeError as error:
                if "out of memory" not in str(error):
                    raise
                print("left out")


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 4), torch.randint(2, (48,))), batch_size=8, shuffle=True)
    model = nn.DataParallel(Picky()).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    try:
        train(model, loader, optimizer)
    except KeyboardInterrupt:
        torch.save(model.state_dict(), "interrupted.pt")


if __name__ == "__main__":
    main()
