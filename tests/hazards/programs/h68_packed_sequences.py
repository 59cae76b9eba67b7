"""Sequences are packed by their lengths and padded to the length of the whole batch again."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader, TensorDataset


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 6, batch_first=True)
        self.out = nn.Linear(6, 2)

    def forward(self, x, lengths):
        self.rnn.flatten_parameters()
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=x.size(1))
        return self.out(states.mean(1))


def main():
    torch.manual_seed(0)
    lengths = torch.arange(48) % 6 + 1
    data = TensorDataset(torch.randn(48, 7, 4), lengths, torch.randint(2, (48,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.DataParallel(Reader()).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, length, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda(), length.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
