"""What a step draws once, for the whole batch or for something else than its samples, is rank 0's on all processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.pipeline import Conversion, convert_program
from migrator.load.source import Source
from migrator.verify import ForkServer

from .test_not_way_one import AFTER, LOSS, STEP, Edit, edited
from .trained import check_equal

SCALED = LOSS.replace("criterion(out, y)", "amount * criterion(out, y)")
ONCE: dict[str, tuple[Edit, str]] = {
    "a number": ((LOSS, "            amount = random.uniform(0.5, 2)\n" + SCALED), "random.uniform(0.5, 2)"),
    "a number of numpy's": (
        (LOSS, "            amount = np.random.beta(1.0, 1.0)\n" + SCALED),
        "np.random.beta(1.0, 1.0)",
    ),
    "samples to look at": (
        (STEP, "            looked = random.sample(range(64), 4)\n            print(looked)\n"),
        "random.sample(range(64), 4)",
    ),
}
WHOLE: dict[str, Edit] = {
    "an array": (LOSS, "            amount = np.random.beta(1.0, 1.0, 16)\n" + SCALED),
    "what only some processes come to": (
        STEP,
        "            import os\n            if os.path.exists('look'):\n                print([random.random() for _ in 'ab'])\n"
        "                looked = random.sample(range(64), 4)\n",
    ),
    "a shuffle in place": (STEP, "            looked = list(range(4))\n            random.shuffle(looked)\n"),
    "a choice of its samples": (STEP, "            looked = random.choice(x)\n"),
}


def convert(change: Edit) -> Conversion:
    return convert_program(Path("train.py"), Options(), Source("train.py", edited(change)))


@pytest.mark.parametrize("name", ONCE)
def test_rank_zero_draws_for_all(name: str) -> None:
    change, drawn = ONCE[name]
    conversion = convert(change)
    assert conversion.way == "distributed", conversion.reason
    assert f"from_rank_zero({drawn})" in conversion.changes[0].after


@pytest.mark.parametrize("name", WHOLE)
def test_the_batch_stays_whole_for(name: str) -> None:
    assert convert(WHOLE[name]).way == "call"


def test_between_the_epochs_rank_zero_draws_too() -> None:
    conversion = convert((AFTER, "        if epoch:\n            looked = random.sample(range(64), 4)\n"))
    assert conversion.way == "distributed", conversion.reason
    assert "looked = from_rank_zero(random.sample(range(64), 4))" in conversion.changes[0].after


def test_a_draw_among_others_keeps_the_batch_whole() -> None:
    other = "        if random.random() > 0.5:\n            looked = random.sample(range(64), 4)\n"
    assert convert((AFTER, other)).way == "call"


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer(preload=("numpy",)) as server:
        yield server


@pytest.mark.long
@pytest.mark.parametrize("options", [Options(), Options(target="accelerate")], ids=["ddp", "accelerate"])
def test_it_trains_the_same(
    options: Options, tmp_path: Path, server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_equal(edited(ONCE["a number"][0]), tmp_path, server, monkeypatch, options=options)
