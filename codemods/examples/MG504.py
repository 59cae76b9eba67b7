# %% changed in setup
import time

folder = time.strftime("runs/%H%M%S")
os.makedirs(folder, exist_ok=True)

# %% left alone
import time

print("seconds:", time.time())
