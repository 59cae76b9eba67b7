# %% changed
import logging

logging.info("epoch %d", epoch)

# %% left alone
print(epoch)
