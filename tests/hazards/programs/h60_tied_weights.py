"""The output layer shares its weight with the embedding, and a penalty looks at all parameters."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Speller(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters = nn.Embedding(12, 6)
        self.out = nn.Linear(6, 12, bias=False)
        self.out.weight = self.letters.weight

    def forward(self, letters):
        return self.out(torch.tanh(self.letters(letters).mean(1)))


def main():
    torch.manual_seed(0)
    letters = torch.randint(12, (48, 4))
    loader = DataLoader(TensorDataset(letters, letters[:, 0]), batch_size=8, shuffle=True)
    model = nn.DataParallel(Speller()).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            loss = loss + 1e-3 * sum(p.pow(2).sum() for p in model.parameters())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
