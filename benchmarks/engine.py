"""Measure the forms of a program in one interleaved benchmark.

In: a `Request`.  Out: a `Report`.  Executes the user's program, each run in a fresh copy of its folder, in processes that torchrun or
accelerate start.  A form that fails is reported with its own error and the others go on; Ctrl-C ends everything and gives
what was measured.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from benchmarks.aggregate import make_communication, make_run, make_work
from benchmarks.figures import summarise
from benchmarks.launch import Measuring, Plan, RunFailed, shown_command, start
from benchmarks.nvml import Sampled, sampling
from benchmarks.results import Communication, Environment, Report, Run, Variant, Work
from codemods.base import Options
from migrator.console import internal_error
from migrator.convert import convert_program
from migrator.doctor import Gpu, Machine, read_machine
from migrator.source import SourceError
from migrator.verify.workspace import copy_project
from migrator.write import WriteError, encoded

Target = Literal["ddp", "accelerate"]
TITLES = {
    "single": "one device",
    "dp": "DataParallel",
    "ddp": "DistributedDataParallel",
    "accelerate": "accelerate",
}
CPU_PROCESSES = 2

# (what is going on, run number from 1, runs in all)
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Request:
    """One benchmark; `gpus` empty: the CPU."""

    program: Path
    command: str
    arguments: tuple[str, ...] = ()
    targets: tuple[Target, ...] = ("ddp",)
    after: Path | None = None  # a converted program to take instead of converting now
    gpus: tuple[Gpu, ...] = ()
    processes: int = CPU_PROCESSES  # on the CPU
    rounds: int = 3
    measuring: Measuring = field(default_factory=lambda: Measuring(10, 30, 3))
    profile_steps: int = 3  # of one run per form, after its timed windows
    model: str | None = None
    keep: Path | None = None  # logs and traces
    root: Path | None = (
        None  # folder to copy; default: the current one where the program lies in it, else the program's
    )


@dataclass(slots=True)
class _Found:
    """What one form has given so far."""

    runs: list[Run] = field(default_factory=list)
    work: Work | None = None
    communication: Communication | None = None
    error: str | None = None
    versions: dict[str, str | None] = field(default_factory=dict)  # as the process saw them


def benchmark(request: Request, progress: Progress | None = None, machine: Machine | None = None) -> Report:
    """Run everything.  Raises `OSError` and `SourceError` where the program cannot be read."""
    machine = machine or read_machine(with_torch=False)
    created = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    plans, missing = make_plans(request)
    found = {plan.name: _Found() for plan in plans}
    notes: list[str] = []
    with _folder(request.keep) as folder:
        try:
            _run_all(request, plans, found, folder, progress, notes)
        except KeyboardInterrupt:
            notes.append("Interrupted: this is what was measured until then.")
    variants = [_variant(plan, found[plan.name], request.arguments) for plan in plans] + missing
    order = ["single", "dp", *request.targets]
    variants.sort(key=lambda v: order.index(v.name))
    return Report(
        program=str(request.program),
        command=request.command,
        created=created,
        device="cuda" if request.gpus else "cpu",
        source="measured",
        environment=read_environment(request, machine, {k: v for f in found.values() for k, v in f.versions.items()}),
        variants=tuple(variants),
        model=request.model,
        warmup_steps=request.measuring.warmup,
        steps_per_window=request.measuring.steps,
        windows_per_run=request.measuring.windows,
        rounds=request.rounds,
        notes=tuple(notes),
    )


# -------------------------------------------------------------------- plans
def make_plans(request: Request) -> tuple[list[Plan], list[Variant]]:
    """What can be run, and the forms that cannot."""
    root = _root(request)
    entry = str(request.program.resolve().relative_to(root))
    cuda = bool(request.gpus)
    count = len(request.gpus) if cuda else request.processes
    every = ",".join(gpu.uuid for gpu in request.gpus)
    first = request.gpus[0].uuid if cuda else ""
    device = "cuda" if cuda else "cpu"
    plans = [Plan("single", TITLES["single"], 1, 1, device, entry, {}, visible=first)]
    missing = []
    if count > 1 and cuda:
        plans.append(Plan("dp", TITLES["dp"], count, 1, device, entry, {}, visible=every))
    else:
        title = "one GPU" if cuda else "no GPU"
        error = f"{title}: DataParallel calls the module itself, as in the row above"
        missing.append(Variant("dp", TITLES["dp"], "passes-through", 1, 1, error=error))
    for target in request.targets:
        try:
            files, whole = _converted(request, target, root)
        except (SourceError, WriteError, ValueError) as error:
            missing.append(Variant(target, TITLES[target], "not-available", count, count, error=str(error)))
            continue
        except Exception as error:  # a fault of the converter's keeps the other forms from nothing
            told = internal_error(error)
            missing.append(Variant(target, TITLES[target], "not-available", count, count, error=told))
            continue
        launcher = "accelerate" if target == "accelerate" and cuda else "torchrun"
        # On a CPU `accelerate launch` wants MPI for several processes; torchrun starts the same program.
        environment = {"ACCELERATE_USE_CPU": "true"} if target == "accelerate" and not cuda else {}
        place = entry if request.after is None else str(request.after.resolve().relative_to(root))
        plans.append(
            Plan(target, TITLES[target], count, count, device, place, files, launcher, every, whole, environment)
        )
    return plans, missing


def _converted(request: Request, target: Target, root: Path) -> tuple[Mapping[str, bytes], bool]:
    """The converted files relative to the root, and whether each rank reads whole batches."""
    if request.after is not None:
        if not request.after.resolve().is_relative_to(root):
            raise ValueError(f"{request.after}: does not lie beside the original ({root})")
        return {}, False
    conversion = convert_program(request.program, Options(target=target))
    if not conversion.changes:
        told = "; ".join(d.message for d in conversion.diagnostics)
        raise ValueError(f"cannot be converted: {told or 'nothing to convert'}")
    files = {str(Path(change.path).resolve().relative_to(root)): encoded(change) for change in conversion.changes}
    return files, conversion.way == "call"


def _root(request: Request) -> Path:
    if request.root is not None:
        return request.root.resolve()
    entry, here = request.program.resolve(), Path.cwd().resolve()
    return here if here in entry.parents else entry.parent


# -------------------------------------------------------------------- runs
def _run_all(
    request: Request,
    plans: Sequence[Plan],
    found: Mapping[str, _Found],
    folder: Path,
    progress: Progress | None,
    notes: list[str],
) -> None:
    """Each round runs every form once, beginning with another one each time."""
    number, total = 0, request.rounds * len(plans)
    for turn in range(request.rounds):
        shift = turn % len(plans)
        for plan in [*plans[shift:], *plans[:shift]]:
            number += 1
            one = found[plan.name]
            if one.error is not None:
                continue
            if progress is not None:
                progress(f"round {turn + 1}, {plan.title}", number, total)
            profiled = turn == request.rounds - 1
            try:
                _run(request, plan, one, folder, turn, profiled, notes)
            except RunFailed as error:
                one.error = str(error)


def _run(request: Request, plan: Plan, one: _Found, folder: Path, turn: int, profiled: bool, notes: list[str]) -> None:
    root = _root(request)
    place = folder / f"{plan.name}-{turn}"
    copy = place / "copy" / root.name
    copy.parent.mkdir(parents=True)
    copy_project(root, copy)
    for name, data in plan.files.items():
        target = copy / name
        if not target.parent.resolve().is_relative_to(copy.resolve()):
            raise RunFailed(f"{name}: lies in a folder that is too large to copy")
        target.unlink(missing_ok=True)
        target.write_bytes(data)
    here = Path.cwd().resolve()
    cwd = copy / here.relative_to(root) if here.is_relative_to(root) else copy
    measuring = replace(request.measuring, profile_steps=request.profile_steps if profiled else 0)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    used = request.gpus[: plan.devices]
    with sampling([gpu.uuid for gpu in used]) as sampled:
        documents = start(plan, measuring, copy, cwd, place, request.arguments)
        seen: list[Sampled] = list(sampled)
    run = make_run(documents, turn, measuring.steps, plan.whole_batches, load, seen)
    if not run.windows:
        raise RunFailed("every step of the windows crossed the end of an epoch: the epochs are too short to be timed")
    one.runs.append(run)
    one.versions = documents[0]["versions"]
    if one.work is None:
        one.work = make_work(documents, run, plan.devices)
    if measuring.profile_steps:
        one.communication, why = make_communication(documents)
        if one.communication is None and plan.processes > 1:
            notes.append(f"{plan.name}: communication is not known: {why}")
    if not all(d["finished"] for d in documents):
        notes.append(f"{plan.name}: the program ended within round {turn + 1}; {len(run.windows)} window(s) counted.")
    shutil.rmtree(place / "copy", ignore_errors=True)


def _variant(plan: Plan, one: _Found, arguments: Sequence[str]) -> Variant:
    variant = Variant(
        name=plan.name,
        title=plan.title,
        status="measured" if one.runs else "failed",
        devices=plan.devices,
        processes=plan.processes,
        launch=shown_command(plan, arguments),
        error=one.error or (None if one.runs else "was not run"),
        work=one.work,
        runs=tuple(one.runs),
        communication=one.communication if plan.devices > 1 else None,
    )
    return variant if summarise(variant) is not None else replace(variant, status="failed")


@contextlib.contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()
        return
    folder = Path(tempfile.mkdtemp(prefix="mgmigrate-bench-")).resolve()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# -------------------------------------------------------------------- environment
def read_environment(request: Request, machine: Machine, versions: Mapping[str, str | None]) -> Environment:
    """The header of a report.  `load` is what it was before the first run; versions are those that a measured process saw."""
    used = {gpu.index for gpu in request.gpus}
    pairs = [(i, j) for i in sorted(used) for j in sorted(used) if j < i]
    links = sorted({machine.links[i][j] for i, j in pairs if i < len(machine.links) and j < len(machine.links[i])})
    peers = {machine.peers[i][j] for i, j in pairs if i < len(machine.peers) and j < len(machine.peers[i])}
    gpu = bool(request.gpus)
    return Environment(
        gpus=tuple(one.name for one in request.gpus),
        topology=", ".join(links) or None,
        p2p=peers == {"OK"} if peers else None,
        driver=machine.driver if gpu else None,
        cuda=versions.get("cuda", machine.torch_cuda) if gpu else None,
        cudnn=versions.get("cudnn", machine.cudnn) if gpu else None,
        nccl=versions.get("nccl", machine.nccl) if gpu else None,
        torch=versions.get("torch", machine.torch),
        accelerate=machine.accelerate,
        python=machine.python,
        cpu=_cpu_name(),
        cpus=machine.cpus,
        load=machine.load,
        commit=_commit(request.program),
        omp_threads=os.environ.get("OMP_NUM_THREADS", "1 (set by bench)"),
    )


def _cpu_name() -> str | None:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or None


def _commit(program: Path) -> str | None:
    """The commit of the program's repository, marked where the work tree differs from it."""
    folder = program.resolve().parent
    try:
        words = ["git", "-C", str(folder), "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
