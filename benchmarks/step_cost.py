"""What a step costs in several forms of one program: collective calls, operator calls, and CPU time as a ratio.

In: the forms, each a text and the options with which it is converted (None: it stays as it is), and which are compared.  Out: a
table; CPU time (of all ranks, loading, evaluation and checkpoints included) as a ratio with its 95 % interval over interleaved
pairs; exit code 1 where a form needs too much.  Needs scipy.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import signal
import socket
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # optimizers import it; once here, rather than in every child
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import TorchDispatchMode

from codemods.options import Options
from migrator.convert.pipeline import convert_program

WARM_UP, COUNTED, STEPS = 3, 4, 8  # steps before the first figure, steps that are counted, steps of an epoch
EPOCHS, SECONDS = 5, 300
OPERATORS, CPU = 1.01, 1.06  # what a form with a limit may need, to the other's

Form = tuple[str, Options | None]


@dataclass(frozen=True, slots=True)
class Compared:
    """Two forms; `limit` says how many collective calls the first may make: as the other's, or not more.  Empty: no limit."""

    form: str
    other: str
    limit: str = ""  # "same", "most"


@dataclass(frozen=True, slots=True)
class Counts:
    """What one rank does in a step: operator calls, and how often each collective is called with how many bytes."""

    operators: float
    collectives: dict[str, tuple[float, float]]  # calls and bytes

    @property
    def calls(self) -> float:
        return sum(calls for calls, _ in self.collectives.values())

    @property
    def sent(self) -> float:
        return sum(size for _, size in self.collectives.values())


class Counting(TorchDispatchMode):  # type: ignore[misc]
    """Counts every operator call of its thread, backward passes and DDP's own collective calls included."""

    def __init__(self) -> None:
        super().__init__()
        self.operators = 0
        self.calls: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "c10d":
            name = func.overloadpacket.__name__.rstrip("_")
            self.calls[name] += 1
            self.bytes[name] += _bytes(args)
        else:
            self.operators += 1
        return func(*args, **(kwargs or {}))

    def per_step(self, steps: int) -> dict[str, Any]:
        collectives = {name: (self.calls[name] / steps, self.bytes[name] / steps) for name in sorted(self.calls)}
        return {"operators": self.operators / steps, "collectives": collectives}


def _bytes(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        size: int = value.numel() * value.element_size()
        return size
    return sum(map(_bytes, value)) if isinstance(value, list | tuple) else 0


# -------------------------------------------------------------------- one rank
def _run_rank(program: Path, rank: int, world: int, port: int, counting: bool) -> None:
    """Run a program as one rank, and leave what was measured beside it; ends the process."""
    signal.alarm(SECONDS)
    os.chdir(program.parent)
    with open(f"log{rank}.txt", "w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    group = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in group.items()})
    epochs = 1 if counting else EPOCHS
    sys.argv, sys.path[0] = [str(program), "--epochs", str(epochs)], str(program.parent)
    torch.set_num_threads(1)
    mode, steps, found = Counting(), 0, {}

    def after_step(*_: object) -> None:
        nonlocal steps
        steps += 1
        if counting and steps == WARM_UP:
            mode.__enter__()
        if counting and steps == WARM_UP + COUNTED:
            mode.__exit__(None, None, None)
            found.update(mode.per_step(COUNTED))
        if steps == WARM_UP:
            found["start"] = _cpu()

    register_optimizer_step_post_hook(after_step)
    code = 1
    try:
        runpy.run_path(str(program), run_name="__main__")
        found["cpu"] = (_cpu() - found["start"]) / (steps - WARM_UP)
        assert steps == STEPS * epochs, steps
        Path(f"rank{rank}.json").write_text(json.dumps(found))
        code = 0
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)  # gloo's threads may abort an orderly exit


def _cpu() -> float:
    """CPU seconds of this process, with all its threads."""
    spent = os.times()
    return spent.user + spent.system


def run(program: Path, world: int, counting: bool = False) -> list[dict[str, Any]]:
    """What every rank measured; raises where one of them failed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = []
    for rank in range(world):
        child = os.fork()
        if child == 0:
            _run_rank(program, rank, world, port, counting)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    if any(codes):
        logs = [(program.parent / f"log{rank}.txt").read_text() for rank in range(world)]
        raise RuntimeError(f"{program} ended with {codes}:\n" + "\n".join(logs))
    return [json.loads((program.parent / f"rank{rank}.json").read_text()) for rank in range(world)]


# -------------------------------------------------------------------- all of them
def write_forms(forms: Mapping[str, Form], folder: Path) -> dict[str, Path]:
    """Each form in a folder of its own."""
    programs = {}
    for number, (form, (text, options)) in enumerate(forms.items()):
        place = folder / f"form{number}"
        place.mkdir()
        programs[form] = place / "train.py"
        programs[form].write_text(text)
        conversion = convert_program(programs[form], options) if options is not None else None
        if conversion is not None and (conversion.questions or not conversion.changes):
            raise RuntimeError(f"{form}: not converted: {[d.message for d in conversion.diagnostics]}")
        for change in conversion.changes if conversion is not None else ():
            Path(change.path).write_text(change.after)
    return programs


def count(program: Path, world: int) -> Counts:
    """The counts of rank 0; the other ranks must make the same collective calls."""
    ranks = run(program, world, counting=True)
    own = {name: (calls, size) for name, (calls, size) in ranks[0]["collectives"].items()}
    for other in ranks[1:]:
        calls = {name: pair[0] for name, pair in other["collectives"].items()}
        if calls != {name: pair[0] for name, pair in own.items()}:
            raise RuntimeError(f"{program}: ranks differ in their collective calls: {own}, {calls}")
    return Counts(ranks[0]["operators"], own)


def paired_ratio(program: Path, other: Path, pairs: int, world: int) -> tuple[float, float, float, float]:
    """CPU milliseconds of a step, and its ratio to the other's with the 95 % interval, over interleaved pairs."""
    import numpy as np
    from scipy.stats import bootstrap  # type: ignore[import-untyped, unused-ignore]

    spent: dict[Path, list[float]] = {program: [], other: []}
    for number in range(pairs):
        for one in (program, other) if number % 2 else (other, program):
            spent[one].append(sum(rank["cpu"] for rank in run(one, world)) * 1000)
    own, theirs = np.array(spent[program]), np.array(spent[other])
    found = bootstrap(
        (own, theirs),
        lambda a, b, axis=-1: np.mean(a, axis=axis) / np.mean(b, axis=axis),
        paired=True,
        vectorized=True,
        rng=np.random.default_rng(0),
    ).confidence_interval
    return float(own.mean()), float(own.mean() / theirs.mean()), float(found.low), float(found.high)


def too_much(own: Counts, other: Counts, limit: str, high: float) -> list[str]:
    """What a form needs above its limit; `high` is where the interval of the ratio of CPU times ends."""
    found = []
    more = own.calls > other.calls or own.sent > other.sent
    if own.collectives != other.collectives if limit == "same" else more:
        found.append(f"collectives of a step are {own.collectives}, the other's {other.collectives}")
    if own.operators > OPERATORS * other.operators:
        found.append(f"{own.operators:.1f} operator calls in a step, more than 1 % above {other.operators:.1f}")
    if high >= CPU:
        found.append(f"the CPU time's interval ends at {high:.3f}, not below {CPU}")
    return found


def main(document: str, forms: Mapping[str, Form], compared: Sequence[Compared]) -> int:
    """Measure, print, and say by the exit code whether all limits hold."""
    parser = argparse.ArgumentParser(description=document.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=20, help="pairs of a comparison with a limit (default: 20)")
    parser.add_argument("--other-pairs", type=int, default=5, help="pairs of each other comparison (default: 5)")
    parser.add_argument("--world", type=int, default=2)
    args = parser.parse_args()
    if min(args.pairs, args.other_pairs) < 2:
        parser.error("an interval needs two pairs or more")
    os.environ.update(CUDA_VISIBLE_DEVICES="", ACCELERATE_USE_CPU="true")
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="mgmigrate-bench-") as name:
        programs = write_forms(forms, Path(name))
        counts = {form: count(program, args.world) for form, program in programs.items()}
        print(f"per step and rank, {args.world} gloo ranks, torch {torch.__version__}")
        print(f"{'form':20s} {'operators':>9s} {'collectives':>11s} {'KiB':>8s}")
        for form, own in counts.items():
            print(f"{form:20s} {own.operators:9.1f} {own.calls:11.2f} {own.sent / 1024:8.1f}", flush=True)
        print(f"\n{'CPU time of':20s} {'to that of':20s}  ms a step  ratio")
        for one in compared:
            pairs = args.pairs if one.limit else args.other_pairs
            milliseconds, ratio, low, high = paired_ratio(programs[one.form], programs[one.other], pairs, args.world)
            told = f"{milliseconds:9.1f}  {ratio:.3f} [{low:.3f}, {high:.3f}], {pairs} pairs"
            print(f"{one.form:20s} {one.other:20s}  {told}", flush=True)
            failures += too_much(counts[one.form], counts[one.other], one.limit, high) if one.limit else []
    for failure in failures:
        print(f"TOO MUCH: {failure}")
    return 1 if failures else 0
