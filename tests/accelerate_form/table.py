"""Every program of the tests in accelerate's form: converted, run on several processes, compared with the original.

    python -m tests.accelerate_form.table [--devices 1,2,4] [--sampling WAY] [--over-ddp] [--text] [WORD ...]

In: the reference trainers, `tests/hazards/programs` and `tests/projects`.  Out: a table with the way in which each program shares
its batches and what came of it on each number of processes, and the share of programs that are EQUAL; exit code 1 below 80 %.
Alone a program is run and not compared: accelerate does not wrap the model of one process.
A row counts only when every process of the converted program found as many processes as were started.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from codemods.options import Options
from migrator.convert.conversion import Conversion
from migrator.convert.modernise import modernise, refused_today
from migrator.convert.pipeline import convert_program
from migrator.verify import ForkServer, Status, Verdict, VerifyRequest, headline, record_before, to_text, verify
from migrator.write.files import encoded
from tests.hazards.cases import CASES
from tests.projects.cases import PROJECTS

HERE = Path(__file__).resolve()
TRAINERS = HERE.parents[2] / "reference_trainers"
HAZARDS = HERE.parents[1] / "hazards" / "programs"
PROJECTS_FOLDER = HERE.parents[1] / "projects" / "programs"
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
    """What came of a program: the conversion, the steps that it took alone, and for each number of processes the verdict and
    the counts of processes that each of them found."""

    subject: Subject
    conversion: Conversion
    verdicts: dict[int, Verdict] = field(default_factory=dict)
    processes: dict[int, list[int]] = field(default_factory=dict)
    alone: str = ""  # "5 steps", or the error that it stopped with

    @property
    def is_equal(self) -> bool:
        ran = not self.alone or self.alone.endswith("steps")
        return ran and bool(self.verdicts) and all(v.status is Status.EQUAL for v in self.verdicts.values())

    @property
    def is_counted(self) -> bool:
        """False where a program that was compared found another number of processes than was started."""
        return all(
            self.processes[world] == [world] * world
            for world in self.processes
            if world not in self.verdicts or self.verdicts[world].status is Status.EQUAL
        )


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
    for project in PROJECTS:
        folder, options = PROJECTS_FOLDER / project.name, {**project.options, "module": project.module}
        yield Subject(project.name, folder, project.entry, project.arguments, (), options, project.unverified)


def _write(conversion: Conversion) -> None:
    for change in conversion.changes:
        Path(change.path).write_bytes(encoded(change))


def examine(
    subject: Subject,
    folder: Path,
    server: ForkServer,
    devices: tuple[int, ...],
    over_ddp: bool = False,
    **options: Any,
) -> Result:
    """Convert a copy of the program, and check it on each number of simulated GPUs.  Executes it.

    `over_ddp`: the copy is converted to DistributedDataParallel first, and that to accelerate.
    """
    before, after = folder / "before", folder / "after"
    for place in (before, after):
        if subject.files:
            place.mkdir(parents=True)
            for name in subject.files:
                shutil.copy(subject.folder / name, place / name)
        else:
            shutil.copytree(subject.folder, place, ignore=shutil.ignore_patterns("__pycache__"))
            (place / ".git").mkdir()  # a project of its own
    modern = modernise(before / subject.entry)
    if refused_today(modern):
        _write(modern)
    if over_ddp:
        _write(convert_program(after / subject.entry, Options()))
    conversion = convert_program(after / subject.entry, Options(**{"target": "accelerate", **options}))
    _write(conversion)
    result = Result(subject, conversion)
    for world in devices if conversion.changes and not subject.asks else ():
        kept = folder / f"kept.{world}"
        gpus = [str(index) for index in range(world)]
        given = [word for part in subject.arguments for word in (gpus if part == "{gpus}" else [part])]
        started = before if world > 1 else after  # alone, only the converted program is run
        request = VerifyRequest(
            started if subject.options.get("module") else started / subject.entry,
            after,
            arguments=tuple(given),
            devices=world,
            timeout=120.0,
            patience=10.0,
            cwd=started,
            keep=kept,
            prelude=_COUNTS,
            **{"float64": True, **subject.options},
        )
        if world == 1:
            record = record_before(replace(request, steps=request.steps or 3), server).record
            result = replace(result, alone=str(record.error) if record.error else f"{len(record.steps)} steps")
        else:
            result.verdicts[world] = verify(request, server)
        side = "after" if world > 1 else "before"
        result.processes[world] = [_found(log) for log in sorted(kept.rglob(f"{side}.*.log"))[:world]]
    return result


def _found(log: Path) -> int:
    """The number of processes that the process of a log found; 0: it never asked."""
    numbers = {int(number) for number in re.findall(r"found (\d+) processes", log.read_text(errors="replace"))}
    return numbers.pop() if len(numbers) == 1 else 0


def row(result: Result) -> str:
    """A line of the table."""
    cells = [f"1: {result.alone}"] if result.alone else []
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
    parser.add_argument("--over-ddp", action="store_true", help="convert to DDP first, and that to accelerate")
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
                results.append(examine(subject, folder, server, devices, args.over_ddp, sampling=args.sampling))
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
