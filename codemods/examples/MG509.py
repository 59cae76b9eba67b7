# %% changed
from tqdm import tqdm

for inputs, targets in tqdm(loader):
    pass

# %% left alone
from tqdm import tqdm

for inputs, targets in tqdm(loader, disable=True):
    pass
