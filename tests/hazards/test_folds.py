"""Folds and repeated runs: each turn has a model, a loader and a length of its own, and begins alike on all processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.verify import ForkServer
from tests.hazards.trained import check_equal
from tests.rules.tools import convert

PROGRAM = """\
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, SubsetRandomSampler, TensorDataset, random_split


def train_one(model, loader, optimizer):
    total = 0.0
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(x)
    return total / len(loader.sampler)


def draw(data):
    return random_split(data, [32, 32])[0]


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    for fold in range(2):
        {before}
        loader = {loader}
        model = nn.DataParallel(nn.Linear(8, 1).cuda())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(2):
            print(fold, epoch, train_one(model, loader, optimizer))
        {after}


if __name__ == "__main__":
    main()
"""
SHUFFLED = "DataLoader(Subset(data, range(fold * 32, fold * 32 + 32)), batch_size=8, shuffle=True)"
SUBSET = "DataLoader(data, batch_size=8, sampler=SubsetRandomSampler(range(fold * 32, fold * 32 + 32)))"
BATCHES = "DataLoader(data, batch_sampler=torch.utils.data.BatchSampler(SubsetRandomSampler(range(fold, fold + 32)), 8, False))"


def program(loader: str = SHUFFLED, before: str = "pass", after: str = "pass") -> str:
    return PROGRAM.format(loader=loader, before=before, after=after)


@pytest.mark.parametrize("target", ["ddp", "accelerate"])
@pytest.mark.parametrize(
    ("loader", "way", "asked"),
    [
        (SHUFFLED, "distributed", "len(loader.dataset)"),
        (SUBSET, "batch", "len(loader.batch_sampler.batch_sampler.sampler)"),
        (BATCHES, "batch", "len(loader.sampler)"),
    ],
    ids=["shuffled", "subset", "batches"],
)
def test_the_length_of_a_sampler_stays_that_of_an_epoch(loader, way, asked, target):
    conversion = convert(program(loader), target=target)
    assert conversion.way == way, conversion.reason
    assert asked in conversion.changes[0].after


def test_the_length_of_what_may_be_another_loader_keeps_whole_batches():
    text = program(after="print(count(loader), count(DataLoader(data, batch_size=4, sampler=range(8))))")
    text = text.replace("def draw(", "def count(given):\n    return len(given.sampler)\n\n\ndef draw(")
    assert "would be that of this process's share" in convert(text).reason


@pytest.mark.parametrize(
    "before",
    ["data = draw(data)", "order = np.random.permutation(64)", "random.shuffle(names)"],
)
def test_what_a_turn_draws_is_drawn_alike(before):
    assert "between one training and the next" in convert(program(before=before)).reason


def test_a_turn_that_seeds_what_it_draws_from_begins_alike():
    assert convert(program(before="torch.manual_seed(fold); data = draw(data)")).way == "distributed"
    assert convert(program(before="torch.manual_seed(fold); order = np.random.permutation(64)")).way == "call"


def test_one_model_for_all_turns_does_not_begin_each_with_the_same_order():
    text = program().replace("        model = ", "    model = ").replace("        optimizer = ", "    optimizer = ")
    lines = [
        line for line in text.splitlines() if line.startswith("    model = ") or line.startswith("    optimizer = ")
    ]
    text = "\n".join(line for line in text.splitlines() if line not in lines)
    text = text.replace("    for fold in", "\n".join(lines) + "\n    for fold in")
    assert "made anew inside a loop" in convert(text).reason


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer(preload=("numpy",)) as server:
        yield server


@pytest.mark.long
@pytest.mark.parametrize("target", ["ddp", "accelerate"])
@pytest.mark.parametrize("loader", [SHUFFLED, SUBSET], ids=["shuffled", "subset"])
def test_trains_the_same(loader, target, tmp_path: Path, server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    check_equal(program(loader), tmp_path, server, monkeypatch, options=Options(target=target))
