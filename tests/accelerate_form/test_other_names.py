"""A model that goes by several names is prepared once, before any of them is trained."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.verify import ForkServer
from tests.hazards.trained import check_equal
from tests.rules.tools import convert

PROGRAM = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Mask:
    def __init__(self, model):
        self.model = model

    def shrink(self):
        with torch.no_grad():
            for p in self.model.parameters():
                p[p.abs() < 0.1] = 0


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    net = nn.Linear(4, 1)
    net = nn.DataParallel(net)
    net = net.cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    mask = Mask(net)
    mask.model = net
    mask.shrink()
    net = mask.model
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.mse_loss(net(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        mask.model = net
        mask.shrink()
        net = mask.model
        net = net.cuda()
    torch.save(net.state_dict(), "net.pt")


if __name__ == "__main__":
    main()
"""
ACCELERATE = Options(target="accelerate")


def test_the_name_of_the_wrap_is_prepared_before_the_others_take_it() -> None:
    lines = convert(PROGRAM, target="accelerate").changes[0].after.splitlines()
    (prepared,) = [i for i, line in enumerate(lines) if ".prepare(" in line]
    assert lines[prepared] == "    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)"
    assert "optimizer = " in lines[prepared - 1] and "mask = Mask(net)" in lines[prepared + 1]


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer() as server:
        yield server


@pytest.mark.long
def test_trains_the_same(tmp_path: Path, server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    check_equal(PROGRAM, tmp_path, server, monkeypatch, options=ACCELERATE)
