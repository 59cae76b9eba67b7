# %% changed in setup
from torch.utils.data import WeightedRandomSampler

sampler = WeightedRandomSampler(torch.rand(64), 64)
loader = DataLoader(data, batch_size=16, sampler=sampler)

# %% left alone
pass
