from .build import get_loaders
