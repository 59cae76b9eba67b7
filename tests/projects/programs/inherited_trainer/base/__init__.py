from .loader import SplitLoader
from .trainer import Trainer
