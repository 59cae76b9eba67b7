# %% changed in setup
from torchvision.datasets import MNIST

images = MNIST("data", download=True)

# %% left alone in setup
from torchvision.datasets import MNIST

images = MNIST("data")
