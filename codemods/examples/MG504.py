# %% changed in setup
import time

folder = time.strftime("runs/%H%M%S")
os.makedirs(folder, exist_ok=True)

# %% changed in setup
import numpy as np

np.random.seed()
torch.rand(int(np.random.rand() * 10))

# %% left alone
import time

print("seconds:", time.time())
