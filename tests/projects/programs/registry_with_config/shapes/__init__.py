from . import data, models, optimizers
