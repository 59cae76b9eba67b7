"""Samplers of torch's own: a RandomSampler of the loader's data is a shuffle, a SequentialSampler is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.pipeline import Conversion, convert_program
from migrator.load.source import Source
from migrator.verify import ForkServer

from .test_not_way_one import LOADER, Edit, edited
from .trained import check_equal

BOTH: Edit = (
    "import DataLoader, TensorDataset",
    "import DataLoader, DistributedSampler, RandomSampler, SequentialSampler, TensorDataset",
)
RANK: Edit = (
    '    parser.add_argument("--epochs", type=int, default=3)\n',
    '    parser.add_argument("--epochs", type=int, default=3)\n    parser.add_argument("--local_rank", type=int, default=-1)\n',
)
MADE = f"    loader = {LOADER}\n"
READS = "DataLoader(data, batch_size=args.batch_size, sampler=sampler)"
NAMED = f"    sampler = RandomSampler(data)\n    loader = {READS}\n"
SHUFFLES: dict[str, tuple[Edit, ...]] = {
    "in the loader's call": (
        BOTH,
        (LOADER, "DataLoader(data, batch_size=args.batch_size, sampler=RandomSampler(data))"),
    ),
    "by name": (BOTH, (MADE, NAMED)),
    "beside a distributed one that is not taken": (
        BOTH,
        RANK,
        (MADE, NAMED.replace("(data)\n", "(data) if args.local_rank == -1 else DistributedSampler(data)\n", 1)),
    ),
    "in the branch that is taken": (
        BOTH,
        RANK,
        (
            MADE,
            "    if args.local_rank != -1:\n        sampler = DistributedSampler(data)\n    else:\n"
            f"        sampler = RandomSampler(data)\n    loader = {READS}\n",
        ),
    ),
}
DRAWS: dict[str, tuple[Edit, ...]] = {
    "with replacement": (BOTH, (MADE, NAMED.replace("(data)\n", "(data, replacement=True)\n", 1))),
    "of other data": (BOTH, (MADE, NAMED.replace("(data)\n", "(range(32))\n", 1))),
    "of what the name held before": (BOTH, (MADE, NAMED.replace("    loader", "    data = data + data\n    loader"))),
    "that another loader reads too": (
        BOTH,
        (MADE, NAMED + "    second = DataLoader(data, batch_size=4, sampler=sampler)\n"),
    ),
    "or another one": (
        BOTH,
        RANK,
        (MADE, NAMED.replace("(data)\n", "(data) if args.epochs else SequentialSampler(data)\n", 1)),
    ),
    "in order": (BOTH, (MADE, NAMED.replace("Random", "Sequential"))),
}
TURNS = "    for epoch in range(args.epochs):\n"
COUNTED = {
    "by a bar of its own": "    for epoch in tqdm(range(args.epochs)):\n",
    "beside an index": "    for epoch, _ in enumerate(tqdm(range(args.epochs))):\n",
    "by a bar in a variable": "    turns = tqdm(range(args.epochs))\n    for _ in turns:\n",
}


def convert(*changes: Edit) -> Conversion:
    text = edited(*changes)
    compile(text, "train.py", "exec")
    return convert_program(Path("train.py"), Options(), Source("train.py", text))


@pytest.mark.parametrize("name", SHUFFLES)
def test_a_random_sampler_becomes_a_distributed_one(name: str) -> None:
    conversion = convert(*SHUFFLES[name])
    assert conversion.way == "distributed", conversion.reason
    (change,) = conversion.changes
    assert change.after.count("DistributedSampler(data, seed=torch.initial_seed())") == 1
    assert "RandomSampler(data)" not in change.after and "sampler.set_epoch(epoch)" in change.after


@pytest.mark.parametrize("name", DRAWS)
def test_a_sampler_is_kept(name: str) -> None:
    conversion = convert(*DRAWS[name])
    assert conversion.way == "batch", conversion.reason
    assert "split_batches(DataLoader(" in conversion.changes[0].after


@pytest.mark.parametrize("name", COUNTED)
def test_epochs_are_counted(name: str) -> None:
    conversion = convert((TURNS, COUNTED[name]))
    assert conversion.way == "distributed", conversion.reason
    assert "sampler.set_epoch(epoch)" in conversion.changes[0].after


def test_epochs_of_a_list_are_not() -> None:
    assert convert((TURNS, "    turns = sorted([3, 1, 1])\n    for epoch in turns:\n")).way == "batch"


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer(preload=("numpy",)) as server:
        yield server


@pytest.mark.parametrize("options", [Options(), Options(target="accelerate")], ids=["ddp", "accelerate"])
def test_a_random_sampler_trains_the_same(
    options: Options, tmp_path: Path, server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = edited(*SHUFFLES["beside a distributed one that is not taken"], (TURNS, COUNTED["by a bar in a variable"]))
    check_equal(text, tmp_path, server, monkeypatch, options=options)
