# %% told in setup
from balanced import BalancedDataParallel

other = BalancedDataParallel(4, model, dim=0)

# %% left alone in setup
print(nn.parallel.DistributedDataParallel)
