# %% changed in setup
from torch.utils.data import SubsetRandomSampler

loader = DataLoader(data, batch_size=16, sampler=SubsetRandomSampler(range(32)))
samples = len(loader.sampler)

# %% left alone in setup
samples = len(data)
