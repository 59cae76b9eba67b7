import torch
from torch.utils.data import TensorDataset

from base import SplitLoader


class DigitsLoader(SplitLoader):
    def __init__(self, batch_size, held_out_part):
        draw = torch.Generator().manual_seed(7)
        images = torch.randn(128, 1, 8, 8, generator=draw)
        labels = torch.randint(10, (128,), generator=draw)
        super().__init__(TensorDataset(images, labels), batch_size, held_out_part)
