"""What a step does in functions of its own, and calls of one model that follow each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.pipeline import Conversion, convert_program
from migrator.load.source import Source
from migrator.verify import ForkServer

from .test_not_way_one import CRITERION, LOSS, MODEL, Edit, edited
from .trained import check_equal

HEAD = "def main():\n"
BATCHES = "        for i, (x, y) in enumerate(loader):\n"
MOVED = "            x, y = x.cuda(), y.cuda()\n"
SUM: Edit = (CRITERION, 'nn.CrossEntropyLoss(reduction="sum")')


def function(text: str) -> Edit:
    return HEAD, f"{text}\n\n{HEAD}"


def taken_apart(body: str, given: str = "x, y") -> tuple[Edit, ...]:
    """A function that is given a batch, and gives back inputs and targets."""
    return (
        function(f"def parts(batch):\n{body}    return {given}\n"),
        (BATCHES, "        for i, batch in enumerate(loader):\n"),
        (MOVED, "            x, y = parts(batch)\n"),
    )


NET = "    net = model.module\n    # before the epochs\n"
SHARED: dict[str, tuple[Edit, ...]] = {
    "a function takes the batch apart": taken_apart("    x, y = batch\n    x = x.cuda()\n    y = y.cuda()\n"),
    "a function takes the batch apart where it gives it back": taken_apart(
        '    """Inputs and targets."""\n', "batch[0].cuda(), batch[1].cuda()"
    ),
    "a function calls the model": (
        function("def run(model, x):\n    return model(x)\n"),
        (MODEL, "            out = run(model, x)\n"),
    ),
    "the model is called twice": (
        (MODEL, "            out = model(x)\n            more = model(x.float())\n"),
        (LOSS, "            loss = criterion(out + more, y) + ((out - more) ** 2).sum()\n"),
    ),
}


def convert(*changes: Edit) -> Conversion:
    text = edited(*changes)
    compile(text, "train.py", "exec")
    return convert_program(Path("train.py"), Options(), Source("train.py", text))


@pytest.mark.parametrize("name", SHARED)
def test_each_process_loads_its_share_where(name: str) -> None:
    conversion = convert(*SHARED[name], SUM)
    assert conversion.way == "distributed", conversion.reason
    (after,) = [change.after for change in conversion.changes if change.path == "train.py"]
    calls = [line for line in after.splitlines() if line.startswith(" " * 12) and ("model(x" in line or "run(" in line)]
    assert calls and all("whole_batch(" in line for line in calls)


KEPT: dict[str, tuple[Edit, ...]] = {
    "a function turns the samples around": taken_apart(
        "    x, y = batch\n    x, y = x.cuda(), y.cuda()\n    x = x.flip(0)\n"
    ),
    "a function makes arrays": taken_apart("    x, y = batch\n    x, y = x.cuda(), y.numpy()\n"),
    "a function adds noise": taken_apart(
        "    x, y = batch\n    x, y = x.cuda(), y.cuda()\n    x = x + torch.randn_like(x)\n"
    ),
    "a function keeps what it sees": (
        *taken_apart("    x, y = batch\n    seen.append(x.mean())\n    x, y = x.cuda(), y.cuda()\n"),
        ("import argparse\n", "import argparse\n\nseen = []\n"),
        (LOSS, "            loss = criterion(out, y) * seen[-1]\n"),
    ),
    "a function gives back a number": (
        function("def parts(batch):\n    x, y = batch\n    return x.cuda(), y.cuda(), x.mean()\n"),
        (BATCHES, "        for i, batch in enumerate(loader):\n"),
        (MOVED, "            x, y, mean = parts(batch)\n"),
        (LOSS, "            loss = criterion(out, y) * mean\n"),
    ),
    "a function weights the inputs": taken_apart(
        "    x, y = batch\n    x, y = x.cuda(), y.cuda()\n    x = x / x.std()\n"
    ),
    "a function calls the model with something of its own": (
        function("def run(model, x):\n    return model(x - x.mean())\n"),
        (MODEL, "            out = run(model, x)\n"),
    ),
    "a function calls the bare network": (
        function("def run(model, x):\n    return model.module(x)\n"),
        (MODEL, "            out = run(model, x)\n"),
    ),
    "inputs are looked at between the calls": (
        (MODEL, "            out = model(x)\n            scale = x.std()\n            more = model(x.float())\n"),
        (LOSS, "            loss = criterion(out + more * scale, y)\n"),
    ),
    "the second call is given outputs of the first": (
        (MODEL, "            out = model(x)\n            more = model(x + out.mean())\n"),
        (LOSS, "            loss = criterion(out + more, y)\n"),
    ),
    "the model's statistics change between two calls": (
        ("        x = torch.relu(self.body(x))\n", "        x = torch.relu(self.norm(self.body(x)))\n"),
        ("        self.head = nn.", "        self.norm = nn.BatchNorm1d(16)\n        self.head = nn."),
        (MODEL, "            out = model(x)\n            model(x.float())\n"),
    ),
    "each call has a backward pass of its own, behind both": (
        (MODEL, "            out = model(x)\n            more = model(x.float())\n"),
        (LOSS, "            criterion(more, y).backward()\n            loss = criterion(out, y)\n"),
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_the_batch_stays_whole_where(name: str) -> None:
    conversion = convert(*KEPT[name], SUM)
    assert conversion.way == "call", conversion.reason


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer(preload=("numpy",)) as server:
        yield server


@pytest.mark.long
@pytest.mark.parametrize("name", SHARED)
def test_trains_the_same(name: str, tmp_path: Path, server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    check_equal(edited(*SHARED[name], SUM), tmp_path, server, monkeypatch)
