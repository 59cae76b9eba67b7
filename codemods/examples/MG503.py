# %% changed in setup
from torch.utils.tensorboard import SummaryWriter

writer = SummaryWriter("logs")

# %% left alone in setup
notes = open("notes.txt").read()
