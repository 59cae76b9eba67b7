"""Batches of about as many tokens, not of as many samples."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Sentences(Dataset):
    def __init__(self, count):
        self.lengths = [3 + (7 * i) % 9 for i in range(count)]

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        return torch.arange(self.lengths[index]) % 20, index % 2


class TokenBatches:
    def __init__(self, lengths, tokens):
        self.batches = []
        batch, filled = [], 0
        for index in sorted(range(len(lengths)), key=lengths.__getitem__):
            batch.append(index)
            filled += lengths[index]
            if filled >= tokens:
                self.batches.append(batch)
                batch, filled = [], 0

    def __iter__(self):
        return iter(self.batches)

    def __len__(self):
        return len(self.batches)


def pad(rows):
    width = max(len(tokens) for tokens, _ in rows)
    words = torch.zeros(len(rows), width, dtype=torch.long)
    for i, (tokens, _) in enumerate(rows):
        words[i, : len(tokens)] = tokens
    return words, torch.tensor([label for _, label in rows])


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.out = nn.Linear(8, 2)

    def forward(self, tokens):
        return self.out(self.words(tokens).mean(1))


torch.manual_seed(0)
sentences = Sentences(40)
loader = DataLoader(sentences, batch_sampler=TokenBatches(sentences.lengths, 40), collate_fn=pad)
model = nn.DataParallel(Bag()).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for epoch in range(2):
    for tokens, labels in loader:
        loss = nn.functional.cross_entropy(model(tokens.cuda()), labels.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
