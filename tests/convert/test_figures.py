"""Figures of a training loop are put together over the processes where something reads them, and nowhere else."""

from __future__ import annotations

import pytest

from tests.rules.tools import convert

SOURCE = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Meter:
    def __init__(self):
        self.sum, self.count, self.avg = 0.0, 0, 0.0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n
        self.avg = self.sum / self.count


class Display:
    def __init__(self, *meters):
        self.meters = meters

    def show(self):
        print([meter.avg for meter in self.meters])


def train(model, loader, optimizer):
    {before}
    for i, (x, y) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {inside}
    {behind}


def main():
    data = TensorDataset(torch.randn(64, 4), torch.randint(2, (64,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        train(model, loader, optimizer)


if __name__ == "__main__":
    main()
"""
SUM, METER = "total += loss.item() * x.size(0)", "losses.update(loss.item(), x.size(0))"
PUT_TOGETHER = ("over_ranks(", "over_processes(")


def _after(before: str, inside: str, behind: str, target: str) -> str:
    source = SOURCE.replace("{before}", before).replace("{inside}", inside).replace("{behind}", behind)
    conversion = convert(source, target=target)
    assert conversion.way == "distributed", conversion.reason
    return conversion.changes[0].after.partition("def train(")[2]


@pytest.mark.parametrize("target", ["ddp", "accelerate"])
@pytest.mark.parametrize(
    ("before", "inside"),
    [
        ("total = 0.0", f"{SUM}; print(total / (i + 1))"),
        ("total = 0.0", f"{SUM}; total = 0.0 if i % 2 else total"),
        ("losses = Meter()", f"{METER}; print(losses.avg)"),
    ],
    ids=["a sum that is only shown", "a sum that begins anew", "a meter that is only shown"],
)
def test_what_nothing_reads_behind_the_loop_is_left_alone(before: str, inside: str, target: str) -> None:
    assert not any(name in _after(before, inside, "pass", target) for name in PUT_TOGETHER)


@pytest.mark.parametrize("target", ["ddp", "accelerate"])
@pytest.mark.parametrize(
    ("before", "inside", "behind"),
    [
        ("total = 0.0", SUM, "return total"),
        ("global total; total = 0.0", SUM, "report()\n\n\ndef report():\n    print(total)"),
        ("total = 0.0\n    def report():\n        print(total)", SUM, "report()"),
        ("losses = Meter()", METER, "return losses.avg"),
        ("losses = Meter(); display = Display(losses)", METER, "display.show()"),
    ],
    ids=["returned", "global", "closure", "meter", "a meter that a display holds"],
)
def test_what_is_read_later_covers_all_samples(before: str, inside: str, behind: str, target: str) -> None:
    assert any(name in _after(before, inside, behind, target) for name in PUT_TOGETHER)
