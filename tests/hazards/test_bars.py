"""A loader is found behind a progress bar, however the loop comes to it."""

import pytest

from tests.rules.tools import convert

PROGRAM = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm


def main(show=False):
    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    others = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 1).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        {loop}
                loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()


if __name__ == "__main__":
    main()
"""
FOUND = {
    "a with": "with tqdm(loader) as bar:\n            for x, y in bar:",
    "a choice": "if True:\n            for x, y in tqdm(loader) if show else loader:",
    "a chosen name": "if True:\n            bar = tqdm(enumerate(loader)) if show else enumerate(loader)\n            for _, (x, y) in bar:",
}
UNKNOWN = {
    "one of two loaders": "if True:\n            for x, y in tqdm(loader) if show else others:",
    "a bar under its loader's name": "if True:\n            loader = tqdm(loader)\n            for x, y in loader:",
}


@pytest.mark.parametrize("target", ["ddp", "accelerate"])
@pytest.mark.parametrize("name", FOUND)
def test_the_loader_is_found_behind(name, target):
    conversion = convert(PROGRAM.format(loop=FOUND[name]), target=target)
    assert conversion.way == "distributed", conversion.reason


@pytest.mark.parametrize("name", UNKNOWN)
def test_the_batch_stays_whole_behind(name):
    assert convert(PROGRAM.format(loop=UNKNOWN[name])).way == "call"
