"""Measure the forms of a program in one interleaved benchmark.

In: a `Request`.  Out: a `Report`.  Executes the user's program, each run in a fresh copy of its folder, in processes that torchrun or
accelerate start.  A form that fails is reported with its own error and the others go on; Ctrl-C ends everything and gives
what was measured.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from benchmarks.aggregate import make_communication, make_run, make_work
from benchmarks.environment import read_environment
from benchmarks.figures import summarise
from benchmarks.forms import Request, make_plans, root_of
from benchmarks.launch import Measuring, Plan, RunFailed, shown_command, start
from benchmarks.nvml import Sampled, sampling
from benchmarks.results import Attempt, Communication, LargestBatch, Report, Run, Variant, Work
from benchmarks.search import find_largest, growth_on_cpu
from migrator.machines.machine import Machine, read_machine
from migrator.verify.workspace import copy_project

# Of a try of --max-batch: enough for the allocator to have settled, and for one figure.
TRY_ON_GPU, TRY_ON_CPU = Measuring(4, 8, 1), Measuring(1, 2, 1)


_WANTS_GPU = re.compile(r"cuda|gpu|nvidia", re.IGNORECASE)
PRETENDED = 'the program insists on a GPU and there is none, so all that it asks of "cuda" was done on the CPU'


class Progress(Protocol):
    """Told what goes on.  `number` is the run's, from 1, of `total`; 0 of 0 for a try of --max-batch."""

    def begins(self, what: str, number: int, total: int, steps: int) -> None: ...

    def steps(self, done: int) -> None: ...


@dataclass(slots=True)
class _Found:
    """What one form has given so far."""

    runs: list[Run] = field(default_factory=list)
    work: Work | None = None
    communication: Communication | None = None
    largest: LargestBatch | None = None
    error: str | None = None
    refused: str | None = None  # its error without a GPU, where it then ran with the CPU in the place of one
    no_memory: bool = False  # it failed for want of memory
    versions: dict[str, str | None] = field(default_factory=dict)  # as the process saw them


def benchmark(request: Request, progress: Progress | None = None, machine: Machine | None = None) -> Report:
    """Run everything.  Raises `OSError` and `SourceError` where the program cannot be read."""
    machine = machine or read_machine(with_torch=False)
    created = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    plans, missing = make_plans(request)
    found = {plan.name: _Found() for plan in plans}
    notes = [f"{plan.name}: {plan.note}" for plan in plans if plan.note]
    interrupted = False
    with _folder(request.keep) as folder:
        try:
            _run_all(request, plans, found, folder, progress, notes)
            if request.max_batch:
                _search_all(request, plans, found, folder, progress)
        except KeyboardInterrupt:
            interrupted = True
            notes.append("Interrupted: this is what was measured until then.")
    refused = {name: one.refused for name, one in found.items() if one.refused}
    if refused:
        notes.append(f"{', '.join(refused)}: {PRETENDED}. Without that: {next(iter(refused.values()))}.")
    variants = [_variant(plan, found[plan.name], request.arguments) for plan in plans] + missing
    order = ["single", "dp", *(form.name for form in request.forms)]
    variants.sort(key=lambda v: order.index(v.name))
    return Report(
        program=str(request.program) if request.module is None else f"-m {request.module}",
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
        interrupted=interrupted,
    )


# -------------------------------------------------------------------- runs
def _run_all(
    request: Request,
    plans: list[Plan],
    found: Mapping[str, _Found],
    folder: Path,
    progress: Progress | None,
    notes: list[str],
) -> None:
    """Each round runs every form once, beginning with another one each time."""
    number, total, count = 0, request.rounds * len(plans), len(plans)
    for turn in range(request.rounds):
        for place in [(turn + i) % count for i in range(count)]:
            plan = plans[place]
            number += 1
            one = found[plan.name]
            if one.error is not None:
                continue
            profiled = turn == request.rounds - 1
            measuring = replace(request.measuring, profile_steps=request.profile_steps if profiled else 0)
            if progress is not None:
                progress.begins(f"round {turn + 1}, {plan.title}", number, total, measuring.total)
            try:
                _run(request, plan, one, folder, turn, measuring, progress, notes)
            except RunFailed as error:
                one.error, one.no_memory = str(error), error.out_of_memory
                if request.gpus or plan.pretend_cuda or not _WANTS_GPU.search(one.error):
                    continue
                plans[place] = replace(plan, pretend_cuda=True)
                try:
                    _run(request, plans[place], one, folder, turn, measuring, progress, notes)
                except RunFailed as second:
                    one.error += f" — and with the CPU in the place of a GPU: {second}"
                else:
                    one.refused, one.error = one.error, None


def _run(
    request: Request,
    plan: Plan,
    one: _Found,
    folder: Path,
    turn: int,
    measuring: Measuring,
    progress: Progress | None,
    notes: list[str],
) -> None:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    documents, seen = _started(request, plan, measuring, folder / f"{plan.name.replace(':', '-')}-{turn}", progress)
    run = make_run(documents, turn, measuring.steps, plan.whole_batches, load, seen)
    if not run.windows:
        raise RunFailed("every step of the windows crossed the end of an epoch: the epochs are too short to be timed")
    one.runs.append(run)
    one.versions = documents[0]["versions"]
    if one.work is None:
        one.work = make_work(documents, run, plan.devices)
    if measuring.profile_steps:
        one.communication, why = make_communication(documents)
        if one.communication is not None and request.keep is None:
            one.communication = replace(one.communication, traces=())
        if one.communication is None and plan.devices > 1:
            notes.append(f"{plan.name}: communication is not known: {why}")
    if not all(d["finished"] for d in documents):
        notes.append(f"{plan.name}: the program ended within round {turn + 1}; {len(run.windows)} window(s) counted.")


def _started(
    request: Request, plan: Plan, measuring: Measuring, place: Path, progress: Progress | None
) -> tuple[list[dict[str, Any]], list[Sampled]]:
    """One start in a fresh copy of the project: what the ranks wrote, and what NVML showed.  Raises `RunFailed`."""
    root = root_of(request)
    copy = place / "copy" / root.name
    for left in (*place.glob("*.json"), *place.glob("steps")):  # of a start that failed
        left.unlink()
    copy.parent.mkdir(parents=True)
    try:
        copy_project(root, copy)
        for name, data in plan.files.items():
            target = copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.parent.resolve().is_relative_to(copy.resolve()):
                raise RunFailed(f"{name}: lies in a folder that is too large to copy")
            target.unlink(missing_ok=True)
            target.write_bytes(data)
        here = Path.cwd().resolve()
        cwd = copy / here.relative_to(root) if here.is_relative_to(root) else copy
        used = request.gpus[: plan.devices]
        watch = None if progress is None else progress.steps
        with sampling([gpu.uuid for gpu in used]) as sampled:
            documents = start(plan, measuring, copy, cwd, place, request.arguments, watch)
            return documents, list(sampled)
    finally:
        shutil.rmtree(place / "copy", ignore_errors=True)


# -------------------------------------------------------------------- largest batch
def _search_all(
    request: Request,
    plans: Sequence[Plan],
    found: Mapping[str, _Found],
    folder: Path,
    progress: Progress | None,
) -> None:
    """The largest batch of each form that runs, or that failed for want of memory."""
    known = [one.work.global_batch for one in found.values() if one.work is not None and one.work.global_batch]
    for plan in plans:
        one = found[plan.name]
        batch = one.work.global_batch if one.work is not None else max(known, default=None)
        if one.error is not None and not one.no_memory:
            continue
        if not batch:
            one.largest = LargestBatch(None, None, None, None, (), "the program's own batch is not known")
            continue
        own = max(1, round(batch / plan.devices))
        one.largest = _search(request, plan, own, folder, progress)


def _search(request: Request, plan: Plan, own: int, folder: Path, progress: Progress | None) -> LargestBatch:
    quick = TRY_ON_GPU if request.gpus else TRY_ON_CPU
    measuring = replace(request.measuring, warmup=quick.warmup, steps=quick.steps, windows=1, profile_steps=0)

    def attempt(batch: int) -> Attempt:
        if progress is not None:
            progress.begins(f"{plan.title}, {batch} samples per device", 0, 0, measuring.total)
        place = folder / f"{plan.name.replace(':', '-')}-batch-{batch}"
        try:
            documents, seen = _started(request, replace(plan, device_batch=batch), measuring, place, progress)
        except RunFailed as error:
            return Attempt(batch, "out-of-memory" if error.out_of_memory else "failed", error=str(error))
        run = make_run(documents, 0, measuring.steps, plan.whole_batches, None, seen)
        figures = summarise(Variant(plan.name, plan.title, "measured", plan.devices, plan.processes, runs=(run,)))
        if figures is None:
            return Attempt(batch, "failed", error="every step crossed the end of an epoch")
        return Attempt(batch, "fits", figures.samples_per_s, figures.memory_peak)

    return find_largest(attempt, own) if request.gpus else growth_on_cpu(attempt, own)


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
        policies=plan.policies,
        largest=one.largest,
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
