"""Functions that put samples together: a share of the batch only where each sample gives its own row."""

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

GIVEN: Edit = (LOADER, LOADER[:-1] + ", collate_fn=together)")


def function(body: str, given: str) -> tuple[Edit, ...]:
    return ("def main():\n", f"def together(batch):\n{body}    return {given}\n\n\ndef main():\n"), GIVEN


ROWS: dict[str, tuple[Edit, ...]] = {
    "columns are stacked": function(
        "    xs, ys, = zip(*batch)\n    ys = torch.tensor(ys, dtype=torch.int64)\n", "torch.stack(xs, dim=0), ys"
    ),
    "what each sample has is stacked": function(
        '    """Inputs and targets."""\n    xs = [sample[0] * 2 for sample in batch]\n',
        "torch.stack(xs), torch.LongTensor([int(y) for _, y in batch])",
    ),
    "torch's own function": (
        (
            "from torch.utils.data import DataLoader",
            "from torch.utils.data import default_collate as together, DataLoader",
        ),
        GIVEN,
    ),
}


def convert(*changes: Edit) -> Conversion:
    text = edited(*changes)
    compile(text, "train.py", "exec")
    return convert_program(Path("train.py"), Options(), Source("train.py", text))


@pytest.mark.parametrize("name", ROWS)
def test_the_batch_is_shared_out_where(name: str) -> None:
    conversion = convert(*ROWS[name])
    assert conversion.way == "distributed", conversion.reason


COLUMNS = "    xs, ys = zip(*batch)\n    xs, ys = torch.stack(xs), torch.stack(ys)\n"
LOOKS: dict[str, tuple[Edit, ...]] = {
    "samples are filled up to the longest": function(
        "    xs, ys = zip(*batch)\n", "nn.utils.rnn.pad_sequence(xs, batch_first=True), torch.stack(ys)"
    ),
    "samples give several rows": function("    xs, ys = zip(*batch)\n", "torch.cat(xs), torch.stack(ys)"),
    "inputs are stacked the other way": function(
        "    xs, ys = zip(*batch)\n", "torch.stack(xs, 1).t(), torch.stack(ys)"
    ),
    "samples are sorted": function("    batch = sorted(batch, key=len)\n" + COLUMNS, "xs, ys"),
    "samples are turned around": function("    batch = batch[::-1]\n" + COLUMNS, "xs, ys"),
    "some samples are left out": function("    batch = [s for s in batch if s[1] > 0]\n" + COLUMNS, "xs, ys"),
    "samples are counted": function(
        "    xs, ys = zip(*batch)\n", "torch.stack([x / len(xs) for x in xs]), torch.stack(ys)"
    ),
    "inputs are centred": function(COLUMNS, "xs - xs.mean(), ys"),
    "noise is added": function(
        "    xs, ys = zip(*batch)\n", "torch.stack([x + torch.randn(8) for x in xs]), torch.stack(ys)"
    ),
    "targets stay a list": function("    xs, ys = zip(*batch)\n", "torch.stack(xs), ys"),
    "samples are compared with the first": function(
        "    xs, ys = zip(*batch)\n    firsts = [xs[0] for _ in batch]\n", "torch.stack(xs), torch.stack(ys)"
    ),
    "a class that holds its own": (
        (
            "def main():\n",
            "class Together:\n    def __call__(self, batch):\n        xs, ys = zip(*batch)\n"
            "        return torch.stack(xs), torch.stack(ys)\n\n\ndef main():\n",
        ),
        (LOADER, LOADER[:-1] + ", collate_fn=Together())"),
    ),
}


@pytest.mark.parametrize("name", LOOKS)
def test_the_batch_stays_whole_where(name: str) -> None:
    conversion = convert(*LOOKS[name])
    assert conversion.way == "call" and "put together by a function" in conversion.reason


SAMPLER = """\
class Drawn(torch.utils.data.Sampler):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __iter__(self):
        left, order = list(range(self.size)), []
        while len(left) >= 2:
            order += [left[-1], left[0]]
            left.pop(0)
            left.pop()
        return iter(order)


def main():
"""
OWN: Edit = (LOADER, "DataLoader(data, batch_size=args.batch_size, sampler=Drawn(64))")


def test_a_sampler_that_uses_up_a_list_ends() -> None:
    assert convert(("def main():\n", SAMPLER), OWN).way == "batch"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("            left.pop(0)\n            left.pop()\n", "            left[0], left[-1] = left[-1], left[0]\n"),
        ("while len(left) >= 2", "while True"),
        ("            left.pop()\n", "            left.append(left.pop())\n"),
        ("while len(left) >= 2", "while self.size"),
    ],
)
def test_a_sampler_that_may_never_end_keeps_the_batch_whole(old: str, new: str) -> None:
    assert SAMPLER.count(old) == 1
    conversion = convert(("def main():\n", SAMPLER.replace(old, new)), OWN)
    assert conversion.way == "call" and "may never end" in conversion.reason


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer(preload=("numpy",)) as server:
        yield server


TRAINED = {**ROWS, "a sampler that uses up a list": (("def main():\n", SAMPLER), OWN)}


@pytest.mark.long
@pytest.mark.parametrize("name", TRAINED)
def test_trains_the_same(name: str, tmp_path: Path, server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    check_equal(edited(*TRAINED[name]), tmp_path, server, monkeypatch)
