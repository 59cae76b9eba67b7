"""Converted programs, and all runs of them that the tests look at: one process forks them one after the other."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from codemods.options import Options
from migrator.convert.conversion import Conversion
from migrator.convert.pipeline import convert_program
from migrator.write.files import encoded

from .programs import ACCUMULATING, BY_HAND, CONTRASTIVE, FILES, LEFT_EARLY, PLAIN, TRAINER

LIMIT = 900  # seconds for all runs; half a minute on a machine that does nothing else


@dataclass
class Runs:
    """Jobs that wait to be run, and what the processes of each said, by rank."""

    folder: Path
    jobs: list[dict[str, Any]] = field(default_factory=list)
    said: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, name: str, script: Path, processes: int, *arguments: object) -> None:
        self.jobs.append(
            {
                "script": str(script),
                "arguments": [*map(str, arguments)],
                "processes": processes,
                "folder": str(script.parent),
                "out": str(self.folder / name),
            }
        )

    def run(self) -> None:
        """Run what waits; every process must have ended well, in a group of the wanted size."""
        path = self.folder / "jobs.json"
        path.write_text(json.dumps(self.jobs))
        ranks = Path(__file__).with_name("ranks.py")
        subprocess.run([sys.executable, str(ranks), str(path)], check=True, timeout=LIMIT)
        for job in self.jobs:
            name, world = Path(job["out"]).name, job["processes"]
            logs = [Path(f"{job['out']}.{rank}.log").read_text() for rank in range(world)]
            ended = [Path(f"{job['out']}.{rank}") for rank in range(world)]
            assert all(path.exists() for path in ended), f"{name}: {logs}"
            self.said[name] = [json.loads(path.read_text()) for path in ended]
            assert [one["processes"] for one in self.said[name]] == [world] * world, name
            for rank, log in enumerate(logs):
                self.said[name][rank]["log"] = log
        self.jobs.clear()

    def __getitem__(self, name: str) -> dict[str, Any]:
        """What the first process recorded."""
        history: dict[str, Any] = self.said[name][0]["history"]
        return history


def convert(folder: Path, text: str | dict[str, str], **options: Any) -> Conversion:
    """Convert a program into a folder of its own, where it is `train.py`."""
    folder.mkdir(parents=True)
    files = {"train.py": text} if isinstance(text, str) else text
    for name, content in files.items():
        (folder / name).write_text(content)
    conversion = convert_program(folder / "train.py", Options(**{"target": "accelerate", **options}))
    for change in conversion.changes:
        Path(change.path).write_bytes(encoded(change))
    return conversion


def edited(folder: Path, name: str, *pairs: tuple[str, str]) -> Path:
    """A copy of the converted program with other text in places: what accelerate's defaults would make of it."""
    text = (folder / "train.py").read_text()
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    path = folder / name
    path.write_text(text)
    return path


CONFIGURED = "dataloader_config=DataLoaderConfiguration(split_batches=True, use_seedable_sampler=True),"
PREPARED = "model, optimizer, train_loader = accelerator.prepare(model, optimizer, train_loader)"


@pytest.fixture(scope="session")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """All runs that the chosen tests look at; those that only long tests need are left out without one of these."""
    root = tmp_path_factory.mktemp("accelerate")
    runs = Runs(root)
    thorough = any(item.get_closest_marker("long") for item in request.session.items)
    convert(root / "plain", PLAIN)
    plain = root / "plain" / "train.py"
    prefixed = convert(root / "prefixed", PLAIN, keep_prefix=True) and root / "prefixed" / "train.py"
    exact = convert(root / "exact", PLAIN, sampling="call") and root / "exact" / "train.py"
    contrastive = convert(root / "contrastive", CONTRASTIVE) and root / "contrastive" / "train.py"
    several = convert(root / "several", FILES) and root / "several" / "train.py"
    (root / "original").mkdir()
    original = root / "original" / "train.py"
    original.write_text(PLAIN)
    convert(root / "ddp", PLAIN, target="ddp")
    ddp = root / "ddp" / "train.py"
    convert(root / "trainer", TRAINER)
    convert(root / "own_way", ACCUMULATING)
    convert(root / "accumulate", ACCUMULATING, accumulate=True)
    convert(root / "batches", PLAIN, sampling="batch")
    runs.add("trainer.2", root / "trainer" / "train.py", 2)
    for world in (1, 2) if thorough else (2,):
        for name in ("own_way", "accumulate"):
            given = ("--samples", 64, "--epochs", 2, "--out", "sums.pt")
            runs.add(f"{name}.{world}", root / name / "train.py", world, *given)
    runs.add("batches.2", root / "batches" / "train.py", 2, "--samples", 52, "--epochs", 2, "--out", "batches.pt")
    (root / "by_hand").mkdir()
    by_hand = root / "by_hand" / "train.py"
    by_hand.write_text(BY_HAND)
    convert(root / "from_hand", BY_HAND)
    runs.add("by hand.2", by_hand, 2)
    convert(root / "over_ddp", (root / "ddp" / "train.py").read_text())
    for world in (1, 2) if thorough else (2,):
        runs.add(f"over ddp.{world}", root / "over_ddp" / "train.py", world, "--out", "over.pt")
    for world in (1, 2):
        runs.add(f"from hand.{world}", root / "from_hand" / "train.py", world)
        runs.add(f"plain.{world}", plain, world, "--out", f"bare{world}.pt")
        runs.add(f"plateau.{world}", plain, world, "--plateau", "--out", "plateau.pt", "--epochs", 4)
        runs.add(f"still.{world}", plain, world, "--lr", 0, "--epochs", 2, "--out", "still.pt")
        runs.add(f"tail.{world}", plain, world, "--samples", 52, "--epochs", 1, "--out", "tail.pt")
        runs.add(f"exact.{world}", exact, world, "--samples", 52, "--epochs", 2, "--out", "exact.pt")
        runs.add(f"contrastive.{world}", contrastive, world)
        runs.add(f"several.{world}", several, world)
    runs.add("original", original, 1, "--out", root / "plain" / "original.pt")
    runs.add("original, exact", original, 1, "--samples", 52, "--epochs", 2, "--out", "exact.pt")
    runs.add("ddp", ddp, 1, "--out", root / "plain" / "ddp.pt")
    runs.add("prefixed", prefixed, 2, "--out", root / "plain" / "prefixed.pt")
    runs.add("contrastive.4", contrastive, 4)
    shares = edited(root / "contrastive", "shares.py", ("gather_batch(accelerator, model(inputs))", "model(inputs)"))
    runs.add("shares.2", shares, 2)
    convert(root / "left", LEFT_EARLY)
    runs.add("left.2", root / "left" / "train.py", 2)
    untold = edited(root / "left", "untold.py", ("    loader.set_epoch(epoch)\n", ""))
    runs.add("left, untold.2", untold, 2)
    runs.add("four", plain, 4, "--epochs", 1, "--out", "four.pt")
    defaults = edited(
        root / "plain",
        "defaults.py",
        (CONFIGURED, ""),
        (PREPARED, f"{PREPARED}\n    scheduler = accelerator.prepare(scheduler)"),
    )
    runs.add("defaults.2", defaults, 2, "--out", "defaults.pt")
    runs.add("defaults, plateau.2", defaults, 2, "--plateau", "--out", "defaults.pt", "--epochs", 4)
    padded = edited(
        root / "plain",
        "padded.py",
        ("process_share(accelerator, val_set)", "val_set"),
        ("math.ceil(args.batch_size / accelerator.num_processes)", "args.batch_size"),
        (PREPARED, f"{PREPARED}\n    val_loader = accelerator.prepare(val_loader)"),
    )
    runs.add("padded.2", padded, 2, "--lr", 0, "--epochs", 2, "--out", "padded.pt")
    for world in (1, 2) if thorough else (2,):
        for kind in ("original", "ddp", "prefixed", "bare1", "bare2"):
            runs.add(f"{kind} into {world}", plain, world, "--epochs", 0, "--resume", f"{kind}.pt", "--out", "read.pt")
    for kind in ("original", "ddp", "prefixed"):
        runs.add(f"{kind} into ddp", ddp, 2, "--epochs", 0, "--resume", root / "plain" / f"{kind}.pt")
    runs.add("ddp into original", original, 1, "--epochs", 0, "--resume", root / "plain" / "ddp.pt")
    runs.add("prefixed into original", original, 1, "--epochs", 0, "--resume", root / "plain" / "prefixed.pt")
    runs.run()
    return runs


@pytest.fixture
def converted(tmp_path: Path) -> Callable[..., tuple[Conversion, str]]:
    """Convert a program in an empty folder; gives the conversion and the new entry."""

    def run(text: str | dict[str, str], **options: Any) -> tuple[Conversion, str]:
        conversion = convert(tmp_path / "program", text, **options)
        return conversion, (tmp_path / "program" / "train.py").read_text()

    return run
