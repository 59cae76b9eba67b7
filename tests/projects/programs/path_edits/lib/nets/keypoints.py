from torch import nn


def build(settings):
    return nn.Sequential(nn.Flatten(), nn.Linear(48, settings["WIDTH"]), nn.ReLU(), nn.Linear(settings["WIDTH"], 4))
