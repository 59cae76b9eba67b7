"""Batches that are drawn from an iterator: each process loads its part of those that rank 0 draws, where that is the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.conversion import Conversion
from migrator.convert.pipeline import convert_program
from migrator.load.source import Source
from migrator.verify import ForkServer

from .test_not_way_one import CRITERION, MODEL, STEPPED, Edit, edited
from .trained import check_equal

EPOCHS = "    for epoch in range(args.epochs):\n        # before the batches\n"
BATCHES = "        for i, (x, y) in enumerate(loader):\n"
ENDED = "        # after the batches\n"
MOVED = "            x, y = x.cuda(), y.cuda()\n"
BEGUN = "    # before the epochs\n"
HEAD = "def main():\n"
SUM: Edit = (CRITERION, 'nn.CrossEntropyLoss(reduction="sum")')
SMALL: Edit = ("torch.randn(64, 8), torch.randint(4, (64,))", "torch.randn(48, 8), torch.randint(4, (48,))")


def counted(draw: str, begun: str = "    it = iter(loader)\n", turns: str = "for i in range(8):") -> tuple[Edit, ...]:
    """The program with one loop of eight steps, which draw their batches."""
    return (
        SMALL,
        (BEGUN, begun),
        (EPOCHS, "    if True:\n"),
        (BATCHES, f"        {turns}\n{draw}"),
        (ENDED, ""),
    )


TRY = """\
            try:
                x, y = next(it)
            except StopIteration:
                it = iter(loader)
                x, y = next(it)
"""
OTHER = """\
            try:
                z, _ = next(other)
            except StopIteration:
                other = iter(more)
                z, _ = next(other)
            z = z.cuda()
"""
BESIDE: tuple[Edit, ...] = (
    ("nn.Linear(8, 16)", "nn.Linear(16, 16)"),
    (MODEL, "            out = model(torch.cat([x, z], 1))\n"),
)
CLASS = """\
class Batches:
    def __init__(self, loader):
        self.loader = loader
        self.it = None

    def begin(self):
        self.it = iter(self.loader)

    def next(self):
        try:
            return next(self.it)
        except StopIteration:
            self.it = iter(self.loader)
            return next(self.it)


def main():
"""
ENDLESS = """\
def endless(loader):
    while True:
        for batch in loader:
            yield batch


def main():
"""
RESTARTED = """\
def endless(data, size):
    loader = DataLoader(data, batch_size=size, shuffle=True)
    it = iter(loader)
    while True:
        try:
            yield next(it)
        except StopIteration:
            it = iter(loader)
            yield next(it)


def main():
"""
PLAIN_LOADER = "    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True)\n"
DRAWN: dict[str, tuple[Edit, ...]] = {
    "the loader begins again when it ends": counted(TRY),
    "the loader begins again, whatever was raised": counted(TRY.replace("except StopIteration", "except")),
    "the loader begins again by count": counted(
        "            if i % len(loader) == 0:\n                it = iter(loader)\n            x, y = next(it)\n"
    ),
    "a batch has one name": counted(
        TRY.replace("x, y = next", "batch = next") + "            x, y = batch\n", turns="for i in tqdm(range(8)):"
    ),
    "steps are counted by hand": counted(
        TRY + "            i += 1\n", begun="    it, i = iter(loader), 0\n", turns="while i < 8:"
    ),
    "a class draws": (
        (HEAD, CLASS),
        *counted("            x, y = batches.next()\n", begun="    batches = Batches(loader)\n    batches.begin()\n"),
    ),
    "a generator goes around": (
        (HEAD, ENDLESS),
        *counted("            x, y = next(it)\n", begun="    it = endless(loader)\n"),
    ),
    "a generator makes the loader": (
        (HEAD, RESTARTED),
        (PLAIN_LOADER, ""),
        *counted("            x, y = next(it)\n", begun="    it = iter(endless(data, args.batch_size))\n"),
    ),
    "a loop over a generator": (
        (HEAD, ENDLESS),
        *counted(
            "            if i == 8:\n                break\n",
            begun="",
            turns="for i, (x, y) in enumerate(endless(loader)):",
        ),
    ),
    "batches go around in memory": (
        ("import copy\n", "import copy\nimport itertools\n"),
        *counted("            x, y = next(it)\n", begun="    it = itertools.cycle(loader)\n"),
    ),
    "two loaders": (
        (PLAIN_LOADER, PLAIN_LOADER + PLAIN_LOADER.replace("loader =", "more =")),
        *counted(TRY + OTHER, begun="    it, other = iter(loader), iter(more)\n"),
        *BESIDE,
    ),
    "a second loader beside the one of the loop": (
        (PLAIN_LOADER, PLAIN_LOADER + PLAIN_LOADER.replace("loader =", "more =")),
        (MOVED, OTHER + MOVED),
        (BEGUN, "    other = iter(more)\n"),
        *BESIDE,
    ),
    "draws in the epochs' own loops": (
        (
            "            x, y = x.cuda(), y.cuda()\n",
            "            x, y = next(it)\n            x, y = x.cuda(), y.cuda()\n",
        ),
        (BATCHES, "        it = iter(loader)\n        for i in range(len(loader)):\n"),
    ),
}


def convert(*changes: Edit) -> Conversion:
    text = edited(*changes)
    compile(text, "train.py", "exec")
    return convert_program(Path("train.py"), Options(), Source("train.py", text))


@pytest.mark.parametrize("whole", [False, True], ids=["a plain mean", "a loss of the whole batch"])
@pytest.mark.parametrize("name", DRAWN)
def test_each_process_loads_its_part_of_drawn_batches(name: str, whole: bool) -> None:
    conversion = convert(*DRAWN[name], *([SUM] if whole else []))
    assert conversion.way == "batch", conversion.reason
    (after,) = [change.after for change in conversion.changes if change.path == "train.py"]
    assert after.count("split_batches(DataLoader(") == after.count("= DataLoader(") + after.count("(DataLoader(")
    assert ("whole_batch(model(" in after) is whole


KEPT: dict[str, tuple[str, tuple[Edit, ...]]] = {
    "only some steps draw": (
        "no loop over a loader",
        counted("            if i % 2 == 0:\n                x, y = next(it)\n"),
    ),
    "a step looks at the batch of the one before": (
        "no loop over a loader",
        counted("            last = x if i else 0\n" + TRY),
    ),
    "the next batch is drawn behind the step": (
        "no loop over a loader",
        (
            *counted("", begun="    it = iter(loader)\n    x, y = next(it)\n"),
            (STEPPED, "            x, y = next(it)\n"),
        ),
    ),
    "a generator puts batches together": (
        "no loop over a loader",
        (
            (HEAD, ENDLESS.replace("yield batch", "yield [torch.cat([part, part.flip(0)]) for part in batch]")),
            *counted("            x, y = next(it)\n", begun="    it = endless(loader)\n"),
        ),
    ),
    "a generator changes what it yields": (
        "no loop over a loader",
        (
            (
                HEAD,
                ENDLESS.replace(
                    "            yield batch",
                    "            batch = [part.flip(0) for part in batch]\n            yield batch",
                ),
            ),
            *counted("            x, y = next(it)\n", begun="    it = endless(loader)\n"),
        ),
    ),
    "a class draws twice": (
        "no loop over a loader",
        (
            (
                HEAD,
                CLASS.replace(
                    "            return next(self.it)\n        except",
                    "            return torch.cat([next(self.it)[0], next(self.it)[0]])\n        except",
                ),
            ),
            *counted(
                "            x, y = batches.next()\n", begun="    batches = Batches(loader)\n    batches.begin()\n"
            ),
        ),
    ),
    "an iterator over something else": (
        "no loop over a loader",
        counted(TRY, begun="    it = iter(loader)\n    if args.epochs > 5:\n        it = iter([data[:16]])\n"),
    ),
    "batches are drawn elsewhere too": (
        "also read outside",
        (
            *counted(TRY, begun="    first, _ = next(iter(loader))\n    shift = first.mean()\n    it = iter(loader)\n"),
            (MODEL, "            out = model(x - shift)\n"),
        ),
    ),
    "another batch is drawn in some steps": (
        "also read outside",
        counted(TRY + "            if i == 3:\n                extra = next(it)[0].mean().item()\n"),
    ),
    "a sampler draws when the next sample is asked for": (
        "one by one",
        (
            (
                HEAD,
                "class Drawn(torch.utils.data.Sampler):\n    def __len__(self):\n        return 48\n\n"
                "    def __iter__(self):\n        for _ in range(48):\n            yield random.randrange(48)\n\n\ndef main():\n",
            ),
            ("shuffle=True", "sampler=Drawn()"),
            *counted(TRY),
        ),
    ),
    "noise is drawn for the whole batch": (
        "more than this batch's samples",
        (*counted(TRY), (MODEL, "            out = model(x + torch.randn(x.size(0), 1).cuda())\n")),
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_the_batch_stays_whole_where(name: str) -> None:
    why, changes = KEPT[name]
    conversion = convert(*changes)
    assert conversion.way == "call" and why in conversion.reason, (conversion.way, conversion.reason)


def test_batches_drawn_for_something_else_keep_a_plain_loop_s_batches_whole() -> None:
    first = "    first, _ = next(iter(loader))\n    shift = first.mean()\n"
    conversion = convert((BEGUN, first), (MODEL, "            out = model(x - shift)\n"))
    assert conversion.way == "call" and "also read outside" in conversion.reason


@pytest.mark.parametrize(
    ("uses", "is_shown"),
    [
        ("    print(first.shape)\n", True),
        ("    logger.info(first[0])\n", True),
        ("    writer.add_images('some', first)\n", True),
        ("    grid = torchvision.utils.make_grid(first)\n    writer.add_image('some', grid)\n", True),
        ("    writer.add_graph(model, first)\n", False),
        ("    print(model(first))\n", False),
        ("    print(model.forward(first))\n", False),
        ("    shown = print(first)\n    shift = shown\n", False),
        ("    if first.mean() > 0:\n        print('bright')\n", False),
        ("    model.module.body.bias.data.fill_(first.mean())\n", False),
    ],
)
def test_a_batch_that_is_only_shown_may_be_a_share(uses: str, is_shown: bool) -> None:
    drawn = "    first, _ = next(iter(loader))\n"
    logs: Edit = (
        "import argparse\n",
        "import argparse\nimport logging\nimport torchvision\n\nlogger = writer = logging\n",
    )
    conversion = convert(logs, (BEGUN, drawn + uses))
    assert (conversion.way == "distributed") is is_shown, conversion.reason


# ---------------------------------------------------------------- the same training
@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer(preload=("numpy",)) as server:
        yield server


@pytest.mark.long
@pytest.mark.parametrize("name", DRAWN)
def test_trains_the_same(name: str, tmp_path: Path, server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    check_equal(edited(*DRAWN[name], SUM), tmp_path, server, monkeypatch)
