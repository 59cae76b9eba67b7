"""More than one training loop in a program: shares where one runs instead of the other, or both in the turns of one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.pipeline import Conversion, convert_program
from migrator.load.source import Source
from migrator.verify import ForkServer

from .test_not_way_one import PLAIN, Edit, edited
from .trained import check_equal

BODY = PLAIN[PLAIN.index("        for i, (x, y) in") : PLAIN.index("        # after the batches\n")]
EPOCHS = PLAIN[PLAIN.index("    # before the epochs\n") : PLAIN.index("        # after the batches\n")]
WEIGHTED = BODY.replace("criterion(out, y)", "2 * criterion(out, y)")


def loop(name: str, body: str = BODY, epochs: str = "") -> str:
    lines = "\n".join(line[4:] if not epochs else line for line in body.splitlines())
    return f"def {name}(model, loader, criterion, optimizer):\n{epochs}{lines}\n\n\n"


GIVEN = "(model, loader, criterion, optimizer)\n"
FUNCTIONS = loop("plain") + loop("weighted", WEIGHTED)
HEAD: Edit = ("def main():\n", FUNCTIONS + "def main():\n")
LONG = "    for epoch in range(2):\n"
LONGER = loop("plain", BODY, LONG) + loop("weighted", WEIGHTED, LONG)
TURNS = "    for epoch in range(args.epochs):\n"
BESIDE: dict[str, tuple[Edit, ...]] = {
    "by an option": (
        HEAD,
        (
            EPOCHS,
            f"{TURNS}        if args.epochs > 5:\n            plain{GIVEN}        else:\n            weighted{GIVEN}",
        ),
    ),
    "by the epoch": (
        HEAD,
        (
            EPOCHS,
            f"{TURNS}        if epoch < 1:\n            plain{GIVEN}            continue\n        weighted{GIVEN}",
        ),
    ),
    "one after the other in each epoch": (HEAD, (EPOCHS, f"{TURNS}        plain{GIVEN}        weighted{GIVEN}")),
    "with epochs of their own": (
        ("def main():\n", LONGER + "def main():\n"),
        (EPOCHS, f"    if args.epochs > 5:\n        plain{GIVEN}    else:\n        weighted{GIVEN}"),
    ),
}
APART: dict[str, tuple[Edit, ...]] = {
    "one phase after the other": (
        ("def main():\n", LONGER + "def main():\n"),
        (EPOCHS, f"    plain{GIVEN}    model.module.head.reset_parameters()\n    weighted{GIVEN}"),
    ),
    "one calls the other": (
        (
            "def main():\n",
            loop("plain")
            + loop("weighted", WEIGHTED + f"            if i == 0:\n                plain{GIVEN}")
            + "def main():\n",
        ),
        (EPOCHS, f"{TURNS}        weighted{GIVEN}"),
    ),
    "random numbers are drawn between them": (
        HEAD,
        (
            EPOCHS,
            f"{TURNS}        plain{GIVEN}        optimizer.param_groups[0]['lr'] = sum(random.random() for _ in 'ab')\n        weighted{GIVEN}",
        ),
    ),
    "one loop's steps follow two backward passes": (
        (
            "def main():\n",
            loop("plain")
            + loop(
                "weighted",
                BODY.replace("loss.backward()", "loss.backward(retain_graph=True)\n            loss.backward()"),
            )
            + "def main():\n",
        ),
        (EPOCHS, f"{TURNS}        if epoch < 1:\n            plain{GIVEN}        else:\n            weighted{GIVEN}"),
    ),
}


def convert(*changes: Edit) -> Conversion:
    text = edited(*changes)
    compile(text, "train.py", "exec")
    return convert_program(Path("train.py"), Options(), Source("train.py", text))


@pytest.mark.parametrize("name", BESIDE)
def test_loops_beside_each_other_share_their_batches_out(name: str) -> None:
    conversion = convert(*BESIDE[name])
    assert conversion.way == "batch", conversion.reason
    (after,) = [change.after for change in conversion.changes if change.path == "train.py"]
    assert after.count("whole_batch(model(x))") == 2 and after.count("split_batches(DataLoader(") == 1
    assert after.count("vary_seed_by_rank()") == (2 if "own" in name else 1)


@pytest.mark.parametrize("name", APART)
def test_the_batch_stays_whole_where(name: str) -> None:
    assert convert(*APART[name]).way == "call"


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer(preload=("numpy",)) as server:
        yield server


@pytest.mark.long
@pytest.mark.parametrize("name", BESIDE)
def test_trains_the_same(name: str, tmp_path: Path, server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    check_equal(edited(*BESIDE[name]), tmp_path, server, monkeypatch)
