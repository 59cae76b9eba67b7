"""Time comes first: the batch is the second dimension, and a hidden state is carried along."""

import torch
from torch import nn

BATCH = 8


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(15, 6)
        self.rnn = nn.GRU(6, 6)
        self.out = nn.Linear(6, 15)

    def forward(self, tokens, hidden):
        states, hidden = self.rnn(self.words(tokens), hidden)
        return self.out(states), hidden


def main():
    torch.manual_seed(0)
    stream = torch.randint(15, (40, BATCH)).cuda()
    model = nn.DataParallel(Language(), dim=1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for epoch in range(2):
        hidden = torch.zeros(1, BATCH, 6).cuda()
        for start in range(0, 35, 5):
            tokens, following = stream[start : start + 5], stream[start + 1 : start + 6]
            scores, hidden = model(tokens, hidden.detach())
            loss = nn.functional.cross_entropy(scores.reshape(-1, 15), following.reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
