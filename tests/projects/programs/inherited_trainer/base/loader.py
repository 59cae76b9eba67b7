import numpy as np
from torch.utils.data import DataLoader, SubsetRandomSampler


class SplitLoader(DataLoader):
    """A loader that keeps a part of its samples for validation, and makes the samplers of both parts itself."""

    def __init__(self, dataset, batch_size, held_out_part):
        order = np.random.RandomState(0).permutation(len(dataset))
        held = int(len(dataset) * held_out_part)
        self.held_sampler = SubsetRandomSampler(order[:held])
        self.arguments = {"dataset": dataset, "batch_size": batch_size}
        super().__init__(sampler=SubsetRandomSampler(order[held:]), **self.arguments)

    def held_out(self):
        return DataLoader(sampler=self.held_sampler, **self.arguments)
