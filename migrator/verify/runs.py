"""The two runs of a check: the original's, and that of the converted program's ranks.

In: a `VerifyRequest`, a fork server and a scratch folder.  Out: records of what they did, and how they ended.  Executes the user's
programs, in child processes and in copies of the project.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from .judge_original import judge_before
from .launcher import ForkServer, Outcome
from .places import Places, after_entry, copy_after, find_places
from .program_text import cuts_batches, pads_batches, trim_unit, wraps_wholes
from .records import Record, count_steps, read
from .scratch import inner
from .settings import AFTER, BEFORE, RunSettings, VerifyRequest
from .verdict import Verdict
from .workspace import Workspace, copy_project

GRACE = 5.0  # seconds beyond a collective's time-out until a rank that does not answer is ended
_ENVIRONMENT = {"GLOO_SOCKET_IFNAME": "lo", "PYTHONWARNINGS": "ignore", "MPLBACKEND": "Agg", "WANDB_MODE": "offline"}


@dataclass(frozen=True, slots=True)
class Recording:
    """The original's run alone."""

    record: Record
    outcome: Outcome
    verdict: Verdict | None  # NOT VERIFIABLE with the reason, or None when the run can be compared with
    log: str
    written: tuple[str, ...]  # files that are new or changed


def run_original(request: VerifyRequest, server: ForkServer, folder: Path) -> tuple[Recording, VerifyRequest, Path]:
    """The original's run; a program that fails while its epochs are cut gets whole ones before it is given up."""
    recording = _run_original(request, server, folder)
    if recording.record.error is None or request.epoch_batches == 0:
        return recording, request, folder
    whole, place = replace(request, epoch_batches=0), inner(folder, "whole")
    second = _run_original(whole, server, place)
    return (second, whole, place) if second.verdict is None else (recording, request, folder)


def _run_original(request: VerifyRequest, server: ForkServer, folder: Path) -> Recording:
    places = find_places(request)
    space = copy_project(places.root, folder / "work.before")
    steps = request.steps or 0
    settings = _settings(request, places, folder, space.folder, BEFORE, 0, 1, steps, request.timeout)
    watch = _watcher(request, BEFORE, settings.record_path, steps)
    outcome = server.run([(settings, _environment(request, folder))], request.timeout, GRACE, watch)
    record = read(settings.record_path, BEFORE, 0)
    log = settings.log_path.read_text(errors="replace")
    problem = judge_before(record, outcome, request.devices, log)
    return Recording(record, outcome, problem, log, tuple(space.written()))


def run_converted(
    request: VerifyRequest, server: ForkServer, folder: Path, before: Record, slowest: float
) -> tuple[list[Record], Outcome, Workspace]:
    """The ranks' run, for as many steps as the original took; `slowest` is the time of its slowest step, in seconds."""
    places = find_places(request)
    space = copy_after(request, places, folder / "work.after")
    world = request.devices
    # One step more than a program that was over by itself: a converted program that goes on is seen.
    steps = len(before.steps) + (1 if before.early else 0)
    patience = max(request.patience, 20.0 * slowest)
    processes = []
    for rank in range(world):
        entry = after_entry(request, places)
        settings = _settings(
            request, replace(places, entry=entry), folder, space.folder, AFTER, rank, world, steps, patience
        )
        ranked = {
            "RANK": rank,
            "LOCAL_RANK": rank,
            "WORLD_SIZE": world,
            "LOCAL_WORLD_SIZE": world,
            "GROUP_RANK": 0,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": 29500,  # never opened: the rendezvous is a file
        }
        processes.append((settings, {**_environment(request, folder), **{k: str(v) for k, v in ranked.items()}}))
    first = processes[0][0]
    watch = _watcher(request, AFTER, first.record_path, steps)
    outcome = server.run(processes, request.timeout, patience + GRACE, watch)
    return [read(s.record_path, AFTER, s.rank) for s, _ in processes], outcome, space


def _settings(
    request: VerifyRequest,
    places: Places,
    folder: Path,
    work: Path,
    side: str,
    rank: int,
    world: int,
    steps: int,
    patience: float,
) -> RunSettings:
    return RunSettings(
        side=side,
        rank=rank,
        world=world,
        devices=request.devices,
        folder=str(folder),
        work=str(work),
        cwd=str(work / places.cwd),
        entry=str(work / places.entry),
        module=request.module,
        arguments=list(request.arguments),
        steps=steps,
        epoch_batches=request.epoch_batches,
        trim=trim_unit(request),
        pads=pads_batches(request),
        cuts=cuts_batches(request),
        wholes=wraps_wholes(request),
        float64=request.float64,
        free=is_free(request),
        fake_data=request.fake_data or 0,
        prelude=request.prelude,
        collective_timeout=min(patience, request.timeout),
    )


def is_free(request: VerifyRequest) -> bool:
    """A float64 run in which no step starts from the original's state."""
    return request.float64 and not request.resynchronise


def _environment(request: VerifyRequest, folder: Path) -> dict[str, str]:
    own = {"TMPDIR": str((folder / "tmp").resolve()), "MPLCONFIGDIR": str((folder / "tmp").resolve())}
    return {**_ENVIRONMENT, **own, **dict(request.environment)}


def _watcher(request: VerifyRequest, side: str, record: Path, wanted: int) -> Callable[[], None] | None:
    if request.progress is None:
        return None
    report, seen = request.progress, -1

    def watch() -> None:
        nonlocal seen
        steps = count_steps(record)
        if steps != seen:
            seen = steps
            report(side, steps, wanted)

    return watch
