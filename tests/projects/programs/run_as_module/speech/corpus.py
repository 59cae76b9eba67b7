import torch
from torch.utils.data import DataLoader, Dataset

SYMBOLS = 7


class Utterances(Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, index):
        draw = torch.Generator().manual_seed(index)
        return torch.randn(10, 5, generator=draw), torch.randint(SYMBOLS, (10,), generator=draw)


def get_loader(batch):
    return DataLoader(Utterances(), batch_size=batch, shuffle=True, drop_last=True)
