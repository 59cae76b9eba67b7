from functools import partial

import torch
from torch import nn

from setup import load, prepare
from steps import Watcher, step


def fit(epochs=2):
    model, optimizer = prepare(width=10)
    watcher = Watcher(model)
    one = partial(step, model, optimizer, nn.BCEWithLogitsLoss())
    for epoch in range(epochs):
        shown = each(load(batch=12), lambda batch: one(*batch))
        print(f"epoch {epoch}: {shown:.4f}, {watcher.calls > 0}")
        torch.save(model.module.state_dict(), "closure.pt")


def each(loader, function):
    total = 0.0
    for batch in loader:
        total += function(batch)
    return total / len(loader)


if __name__ == "__main__":
    fit()
