from layers import *


class Reader(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.mix = Mix(width)
        self.out = nn.Linear(width, words)

    def forward(self, words):
        return self.out(self.mix(self.embed(words)))
