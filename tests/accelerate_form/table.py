"""Every program of the tests in accelerate's form: converted, run on several processes, compared with the original.

    python -m tests.accelerate_form.table [--devices 1,2,4] [--rows] [WORD ...]

In: the reference trainers, `tests/hazards/programs` and `tests/projects`.  Out: a table with the way in which each program shares
its batches and the verdict for each number of processes, and the share of programs that are EQUAL; exit code 1 below 80 %.
A row counts only when every process of the converted program found as many processes as were started.
"""

from __future__ import annotations

import argparse
import importlib
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codemods.base import Options
from migrator.convert import Conversion, convert_program, modernise, refused_today
from migrator.verify import ForkServer, Status, Verdict, VerifyRequest, headline, to_text, verify
from migrator.write import encoded
from tests.hazards.cases import CASES

HERE = Path(__file__).resolve()
TRAINERS = HERE.parents[2] / "reference_trainers"
HAZARDS = HERE.parents[1] / "hazards" / "programs"
PROJECTS = HERE.parents[1] / "projects"
WANTED = 0.8  # share of the programs that must be EQUAL
# Each process of the converted program writes the number of processes that it found into its log.
_COUNTS = """
import os
import accelerate.state
state = accelerate.state.PartialState
made = state.__init__
def counted(self, *args, **kwargs):
    made(self, *args, **kwargs)
    os.write(2, b"found %d processes; " % self.num_processes)
state.__init__ = counted
"""


@dataclass(frozen=True)
class Subject:
    """A program: its folder (or files of one), its entry there, and how it is run."""

    name: str
    folder: Path
    entry: str
    arguments: tuple[str, ...] = ()
    files: tuple[str, ...] = ()  # empty: the whole folder
    options: dict[str, Any] = field(default_factory=dict)  # of the check
    asks: str = ""  # why it is not run: a person has to decide first


@dataclass(frozen=True)
class Result:
    """What came of a program: the conversion, and for each number of processes the verdict and the counts."""

    subject: Subject
    conversion: Conversion
    verdicts: dict[int, Verdict]
    processes: dict[int, list[int]]

    @property
    def is_equal(self) -> bool:
        return bool(self.verdicts) and all(v.status is Status.EQUAL for v in self.verdicts.values())

    @property
    def is_counted(self) -> bool:
        return all(self.processes[world] == [world] * world for world in self.verdicts)


def subjects() -> Iterator[Subject]:
    """All programs, the reference trainers first."""
    resnet = (
        "--synthetic --synthetic-samples 48 --image-size 8 --num-classes 4 --arch resnet8 --batch-size 16 --workers 0"
    )
    yield Subject("resnet_dp", TRAINERS, "resnet_dp.py", (*resnet.split(), "--epochs", "2"), ("resnet_dp.py",))
    bert = "--synthetic --samples 48 --num-classes 4 --max-length 8 --batch-size 16 --workers 0 --dropout 0 --epochs 2"
    yield Subject("bert_dp", TRAINERS, "bert_dp.py", tuple(bert.split()), ("bert_dp.py",))
    for case in CASES:
        entry = f"{case.program}.py"
        files = (entry, *case.files)
        yield Subject(case.program, HAZARDS, entry, (), files, dict(case.options), case.unverified)
    if (PROJECTS / "cases.py").exists():
        yield from _projects()


def _projects() -> Iterator[Subject]:
    for case in importlib.import_module("tests.projects.cases").CASES:
        yield Subject(
            case.name,
            PROJECTS / case.name,
            getattr(case, "entry", "train.py"),
            tuple(getattr(case, "arguments", ())),
            (),
            dict(getattr(case, "options", {})),
            getattr(case, "unverified", ""),
        )


def examine(subject: Subject, folder: Path, server: ForkServer, devices: tuple[int, ...], **options: Any) -> Result:
    """Convert a copy of the program, and check it on each number of simulated GPUs.  Executes it."""
    before, after = folder / "before", folder / "after"
    for place in (before, after):
        if subject.files:
            place.mkdir(parents=True)
            for name in subject.files:
                shutil.copy(subject.folder / name, place / name)
        else:
            shutil.copytree(subject.folder, place)
    modern = modernise(before / subject.entry)
    if refused_today(modern):
        for change in modern.changes:
            Path(change.path).write_bytes(encoded(change))
    conversion = convert_program(after / subject.entry, Options(**{"target": "accelerate", **options}))
    for change in conversion.changes:
        Path(change.path).write_bytes(encoded(change))
    verdicts: dict[int, Verdict] = {}
    processes: dict[int, list[int]] = {}
    for world in devices if conversion.changes and not subject.asks else ():
        kept = folder / f"kept.{world}"
        request = VerifyRequest(
            before / subject.entry,
            after,
            arguments=subject.arguments,
            devices=world,
            timeout=120.0,
            patience=10.0,
            cwd=before,
            keep=kept,
            prelude=_COUNTS,
            **{"float64": True, **subject.options},
        )
        verdicts[world] = verify(request, server)
        processes[world] = [_found(log) for log in sorted(kept.rglob("after.*.log"))[:world]]
    return Result(subject, conversion, verdicts, processes)


def _found(log: Path) -> int:
    """The number of processes that the process of a log found; 0: it never asked."""
    numbers = {int(number) for number in re.findall(r"found (\d+) processes", log.read_text(errors="replace"))}
    return numbers.pop() if len(numbers) == 1 else 0


def row(result: Result) -> str:
    """A line of the table."""
    cells = []
    for world, verdict in result.verdicts.items():
        counted = "" if result.processes[world] == [world] * world else f" (processes: {result.processes[world]})"
        cells.append(f"{world}: {verdict.status.value}{counted}")
    worst = next((v for v in result.verdicts.values() if v.status is not Status.EQUAL), None)
    questions = "; ".join(f"{d.rule} {d.message}" for d in result.conversion.questions)
    why = headline(worst) if worst is not None else result.subject.asks or questions
    if not result.verdicts and not why:
        why = "; ".join(d.message for d in result.conversion.diagnostics)
    return (
        f"| {result.subject.name} | {result.conversion.way} | {' · '.join(cells) or 'not run'} | {why.strip()[:260]} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--devices", default="1,2,4")
    parser.add_argument("--sampling", default="auto")
    parser.add_argument("--text", action="store_true", help="the whole verdict of what is not EQUAL")
    parser.add_argument("words", nargs="*", help="only programs with one of these words in their names")
    args = parser.parse_args()
    devices = tuple(int(word) for word in args.devices.split(","))
    chosen = [s for s in subjects() if not args.words or any(word in s.name for word in args.words)]
    results = []
    print("| program | way | verdict by number of processes | why |\n| --- | --- | --- | --- |", flush=True)
    with ForkServer(
        preload=("numpy", "torchvision", "transformers", "accelerate", "torch.utils.tensorboard")
    ) as server:
        for subject in chosen:
            folder = Path(tempfile.mkdtemp(prefix="mgmigrate-table-"))
            try:
                results.append(examine(subject, folder, server, devices, sampling=args.sampling))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            print(row(results[-1]), flush=True)
            for verdict in results[-1].verdicts.values() if args.text else ():
                if verdict.status is not Status.EQUAL:
                    print(to_text(verdict), flush=True)
    equal = sum(result.is_equal for result in results)
    uncounted = [result.subject.name for result in results if not result.is_counted]
    print(f"\nEQUAL: {equal} of {len(results)}; wrong number of processes: {', '.join(uncounted) or 'none'}")
    return int(bool(uncounted) or equal < WANTED * len(results))


if __name__ == "__main__":
    sys.exit(main())
