"""Tones of different lengths: the data set holds whole batches of similar length, and the loader takes one of them."""

import torch
from torch.utils.data import DataLoader, Dataset


class BatchedTones(Dataset):
    def __init__(self, count, batch_size, seed):
        draw = torch.Generator().manual_seed(seed)
        lengths = sorted(int(n) for n in torch.randint(20, 40, (count,), generator=draw))
        tones = [torch.randn(2, n, generator=draw) for n in lengths]
        self.batches = [tones[i : i + batch_size] for i in range(0, count, batch_size)]

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        return self.batches[index]


class ToneLoader(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.collate_fn = pad_batch


def pad_batch(batch):
    (tones,) = batch
    longest = max(tone.size(1) for tone in tones)
    sources = torch.stack([torch.nn.functional.pad(tone, (0, longest - tone.size(1))) for tone in tones])
    return sources.sum(1), torch.tensor([tone.size(1) for tone in tones]), sources
