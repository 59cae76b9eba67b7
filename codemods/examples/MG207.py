# %% told in file
import numpy as np
from torch.utils.data import Dataset


class Frames(Dataset):
    def __init__(self, path):
        self.frames = np.load(path)

    def __len__(self):
        return len(self.frames)

    def __getitem__(self, index):
        return self.frames[index]

# %% left alone in file
import numpy as np


def read(path):
    return np.load(path)
