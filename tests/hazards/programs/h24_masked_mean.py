"""Padded positions do not count, and how many there are differs from sample to sample."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PAD = -100


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(30, 12)
        self.tags = nn.Linear(12, 4)

    def forward(self, tokens):
        return self.tags(self.words(tokens))


def main():
    torch.manual_seed(21)
    tokens = torch.randint(30, (40, 7))
    tags = torch.randint(4, (40, 7))
    for i in range(40):
        tags[i, 1 + i % 6 :] = PAD
    loader = DataLoader(TensorDataset(tokens, tags), batch_size=8, shuffle=True)
    model = nn.DataParallel(Tagger()).cuda()
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(2):
        for words, labels in loader:
            scores = model(words.cuda())
            loss = criterion(scores.view(-1, 4), labels.cuda().view(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
