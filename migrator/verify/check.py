"""One check from beginning to end: copy, run the original, run the ranks, judge.

In: a `VerifyRequest` and a fork server (one is made, and closed, when none is given).  Out: a `Verdict`.  Executes the user's
programs, in child processes and in copies of the project.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from .judge import judge, judge_before, unverifiable
from .launcher import ForkServer, Outcome, ServerFailed
from .records import Record, count_steps, read
from .settings import AFTER, BEFORE, SCRATCH, SHORT_SCRATCH, RunSettings, VerifyRequest
from .verdict import Status, Verdict
from .workspace import Workspace, copy_project, files_of, lay_over, put

GRACE = 5.0  # seconds beyond a collective's time-out until a rank that does not answer is ended
TOLERANCE, TOLERANCE_FLOAT64 = 1e-5, 1e-9
MOST_BESIDE = 500  # files of the converted program's folder
ROUNDING = 1e-3  # larger differences are no rounding, in float32 resynchronised after each step
GROWN = 1e-6  # .. or in a free float64 run, at the first step above its tolerance
CUTTER = "def gather_batch("
SPLIT_AT_CALL = "class SplitDataParallel"
SPLITTERS = ("class SplitBatchSampler", "class ProcessBatchSampler")
NUMBERS = {"loss", "gradient", "parameter", "buffer"}
ENVIRONMENT = {"GLOO_SOCKET_IFNAME": "lo", "PYTHONWARNINGS": "ignore", "MPLBACKEND": "Agg", "WANDB_MODE": "offline"}


@dataclass(frozen=True, slots=True)
class Recording:
    """The original's run alone."""

    record: Record
    outcome: Outcome
    verdict: Verdict | None  # NOT VERIFIABLE with the reason, or None when the run can be compared with
    log: str
    written: tuple[str, ...]  # files that are new or changed


@dataclass(frozen=True, slots=True)
class Places:
    """Where the program lies in the user's tree, relative to the folder that is copied."""

    root: Path
    cwd: Path
    entry: Path


def verify(request: VerifyRequest, server: ForkServer | None = None) -> Verdict:
    """Check that `request.after` trains as `request.before` does."""
    if request.policies:
        return unverifiable(
            f"policy: {', '.join(request.policies)} changes the training on purpose; check the conversion without it"
            " (--as-faithful)"
        )
    begun = time.monotonic()
    with _server(server, request) as fork, _scratch(request) as folder:
        try:
            verdict = _settled(request, fork, folder, _verify(request, fork, folder))
            verdict = _resolved(request, fork, folder, verdict)
        except ServerFailed as error:
            verdict = unverifiable(f"the checker failed: {error}")
        return replace(
            verdict,
            wall=time.monotonic() - begun,
            devices=request.devices,
            folder=str(folder) if request.keep is not None else "",
        )


def record_before(request: VerifyRequest, server: ForkServer | None = None) -> Recording:
    """Run the original alone and read what it did."""
    with _server(server, request) as fork, _scratch(request) as folder:
        return _original(request, fork, folder)[0]


def _verify(request: VerifyRequest, server: ForkServer, folder: Path) -> Verdict:
    first, request, folder = _original(request, server, folder)
    if first.verdict is not None:
        return replace(first.verdict, cpu_before=first.outcome.cpu, memory=first.outcome.peak)
    before = first.record
    assert request.after is not None
    pauses = zip(before.steps, before.steps[1:], strict=False)
    slowest = max((b["seconds"] - a["seconds"] for a, b in pauses), default=1.0)
    ranks, outcome, converted = _run_after(request, server, folder, before, slowest)
    tolerance = request.tolerance or (TOLERANCE_FLOAT64 if request.float64 else TOLERANCE)
    sampled = frozenset(path.suffix[1:] for path in folder.glob("sampled.after.*"))
    written = first.written, tuple(converted.written())
    verdict = judge(
        before,
        ranks,
        outcome,
        len(before.steps),
        tolerance,
        request.devices,
        request.places,
        written,
        sampled,
        request.float64,
    )
    if request.epoch_batches == 0:
        verdict = replace(
            verdict, notes=(*verdict.notes, "epochs were not cut: the second one may not have been reached")
        )
    return replace(
        verdict,
        float64=request.float64,
        free=_is_free(request),
        cpu_before=first.outcome.cpu,
        cpu_after=outcome.cpu,
        memory=outcome.peak,
    )


def _is_free(request: VerifyRequest) -> bool:
    return request.float64 and not request.resynchronise


def _settled(request: VerifyRequest, server: ForkServer, folder: Path, verdict: Verdict) -> Verdict:
    """A difference of rounding's size is looked at once more in float64, each step from the same state; that verdict counts.

    In float32 a sum may only have been taken in another order; in a free run, a training that amplifies differences (few
    samples under BatchNorm, a high rate) makes the rounding of its first step visible some steps later.
    """
    worst = max(
        (f for row in verdict.rows[-1:] for f in (row.loss_difference, row.gradient, row.parameter, row.buffer)),
        default=0.0,
    )
    free = _is_free(request)
    grown = not free or (verdict.rows and verdict.rows[-1].step > 0)
    small = verdict.status is Status.DIFFERENT and worst < (GROWN if free else ROUNDING) and grown
    if (request.float64 and not free) or not small or not {f.kind for f in verdict.findings} <= NUMBERS:
        return verdict
    again = _verify(replace(request, float64=True, resynchronise=True), server, _inner(folder, "float64"))
    if again.status is not Status.EQUAL:
        return verdict
    found = f"a {verdict.cause} differed by {worst:.1e} at step {verdict.findings[0].step}"
    note = f"in float32 {found}: rounding, gone in float64"
    if free:
        note = f"run freely, {found}: rounding that grew with the steps, gone where each step starts from the original's state"
    return _with_costs(replace(again, notes=(*again.notes, note)), verdict)


def _resolved(request: VerifyRequest, server: ForkServer, folder: Path, verdict: Verdict) -> Verdict:
    """Parameters that differ where float32 shows no gradient but rounding: float64 tells whether there is one.

    The steps up to the last one at which that came up for the first time are run again in float64, where a gradient that is
    only small lies far above rounding, and is compared like all others; all steps are, if there is such a gradient.
    """
    if verdict.status is not Status.EQUAL or verdict.float64 or verdict.unresolved is None:
        return verdict
    finer = replace(request, float64=True, resynchronise=True)
    again = _verify(replace(finer, steps=verdict.unresolved + 1), server, _inner(folder, "resolved"))
    small = [part for part in verdict.noise if part.rpartition(" ")[2] not in again.quiet]
    if again.status is Status.EQUAL and small and again.steps < verdict.steps:
        first = again
        again = _verify(replace(finer, steps=verdict.steps), server, _inner(folder, "resolved whole"))
        again = _with_costs(again, first)
    if again.status is Status.EQUAL:
        text = f"compared in float64, over {again.steps} optimizer steps"
        named = f"{', '.join(small[:5])}: the gradient is too small for float32, so the value was {text}"
        kept = tuple(part for part in verdict.noise if part not in small)
        verdict = replace(verdict, noise=again.noise or kept, notes=(*verdict.notes, *([named] if small else [])))
    elif again.status is Status.DIFFERENT and {f.kind for f in again.findings} <= NUMBERS:
        return _with_costs(again, verdict)
    else:
        why = again.reason or again.findings[0].text
        note = f"whether these gradients are only small could not be seen in float64, where the program does not run: {why}"
        verdict = replace(verdict, notes=(*verdict.notes, note))
    return _with_costs(verdict, again)


def _with_costs(verdict: Verdict, other: Verdict) -> Verdict:
    """The verdict, at the cost of both."""
    return replace(
        verdict,
        cpu_before=verdict.cpu_before + other.cpu_before,
        cpu_after=verdict.cpu_after + other.cpu_after,
        memory=max(verdict.memory, other.memory),
    )


def _inner(folder: Path, name: str) -> Path:
    """A second scratch folder inside the first."""
    place = folder / name
    (place / "states").mkdir(parents=True)
    (place / "tmp").symlink_to((folder / "tmp").resolve())
    return place


def _original(request: VerifyRequest, server: ForkServer, folder: Path) -> tuple[Recording, VerifyRequest, Path]:
    """The original's run; a program that fails while its epochs are cut gets whole ones before it is given up."""
    recording = _run_before(request, server, folder)
    if recording.record.error is None or request.epoch_batches == 0:
        return recording, request, folder
    whole, place = replace(request, epoch_batches=0), _inner(folder, "whole")
    second = _run_before(whole, server, place)
    return (second, whole, place) if second.verdict is None else (recording, request, folder)


# ---------------------------------------------------------------- the two runs
def _run_before(request: VerifyRequest, server: ForkServer, folder: Path) -> Recording:
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


def _run_after(
    request: VerifyRequest, server: ForkServer, folder: Path, before: Record, slowest: float
) -> tuple[list[Record], Outcome, Workspace]:
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
        free=_is_free(request),
        fake_data=request.fake_data or 0,
        prelude=request.prelude,
        collective_timeout=min(patience, request.timeout),
    )


def _environment(request: VerifyRequest, folder: Path) -> dict[str, str]:
    own = {"TMPDIR": str((folder / "tmp").resolve()), "MPLCONFIGDIR": str((folder / "tmp").resolve())}
    return {**ENVIRONMENT, **own, **dict(request.environment)}


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


# ---------------------------------------------------------------- where things lie
def find_places(request: VerifyRequest) -> Places:
    """Which folder is copied, and where in it the program starts."""
    entry = request.before.resolve()
    cwd = (request.cwd or Path.cwd()).resolve()
    inside = entry == cwd or cwd in entry.parents
    own = entry if request.module is not None else entry.parent
    root = request.root.resolve() if request.root is not None else (cwd if inside else own)
    if root not in (entry, *entry.parents):
        raise ValueError(f"{request.before} is not inside {root}, the folder to copy")
    start = cwd.relative_to(root) if cwd == root or root in cwd.parents else Path(".")
    return Places(root, start, entry.relative_to(root))


def after_entry(request: VerifyRequest, places: Places) -> Path:
    """The converted entry, relative to the converted copy."""
    assert request.after is not None
    return _in_place(request.after.resolve(), places) or places.entry


def _in_place(after: Path, places: Places) -> Path | None:
    """A converted file that runs where it lies in the project; one of the entry's name in another folder takes its place."""
    if not after.is_file() or places.root not in after.parents:
        return None
    own = after.relative_to(places.root)
    return own if own.parent == places.entry.parent or own.name != places.entry.name else None


def copy_after(request: VerifyRequest, places: Places, target: Path) -> Workspace:
    """The converted project: a whole folder as it is; single files, or a folder of changed files (`convert --output`), take
    their places in a copy of the original project.  Raises `ValueError` when the entry is not there."""
    assert request.after is not None
    after = request.after.resolve()
    if after.is_dir() and after != places.root and not _is_part(after, places):
        return copy_project(after, target)
    space = copy_project(places.root, target)
    beside = target / (places.entry if request.module is not None else places.entry.parent)
    if after.is_dir() and after != places.root:
        # `convert --output` writes below the program's folder, which need not be where verify was started.
        names = files_of(after, ".py")
        known = {base: sum((base / name).exists() for name in names) for base in (target, beside)}
        if not any(known.values()):
            raise ValueError(f"{request.after} holds none of the program's files")
        lay_over(after, max(known, key=lambda base: known[base]))
    elif after.is_file() and _in_place(after, places) is None:
        for name in files_of(after.parent, ".py")[:MOST_BESIDE]:
            if name != after.name:
                put(after.parent / name, beside / name, target)
        put(after, target / places.entry, target)
    return Workspace(target, space.relist())


def _is_part(after: Path, places: Places) -> bool:
    """Whether the folder holds only some of the project's modules."""
    inside = after.relative_to(places.root) if places.root in after.parents else None
    names = files_of(places.root, ".py")
    return any(not (after / name).exists() for name in names if inside is None or inside not in Path(name).parents)


def trim_unit(request: VerifyRequest) -> int:
    """What a shuffled epoch is cut to a multiple of, so that the converted loader has no rest to fill up."""
    if request.after is None:
        return 1
    text = "\n".join(_sources(request.after))
    if "Accelerator(" in text and ".prepare(" in text and "process_batches(" not in text:
        return 1 if CUTTER in text else 0  # accelerate fills the last batch: whole batches only, unless it is cut again
    return request.devices if "DistributedSampler" in text else 1


def pads_batches(request: VerifyRequest) -> bool:
    """Whether batches are split by the generated sampler, which fills up those that do not divide."""
    return request.after is not None and any(name in text for text in _sources(request.after) for name in SPLITTERS)


def wraps_wholes(request: VerifyRequest) -> bool:
    """True where the converted program splits no batch at a call."""
    return request.after is not None and not any(SPLIT_AT_CALL in text for text in _sources(request.after))


def cuts_batches(request: VerifyRequest) -> bool:
    """Whether what fills up a prepared loader's last batch is cut off before the loss sees it."""
    return request.after is not None and any(CUTTER in text for text in _sources(request.after))


def _sources(after: Path) -> Iterator[str]:
    for path in [after] if after.is_file() else sorted(after.rglob("*.py"))[:500]:
        with contextlib.suppress(OSError):
            yield path.read_text(errors="replace")


# ---------------------------------------------------------------- means
@contextlib.contextmanager
def _server(server: ForkServer | None, request: VerifyRequest) -> Iterator[ForkServer]:
    if server is not None:
        yield server
        return
    with ForkServer(preload=preload(request)) as own:
        yield own


def preload(request: VerifyRequest) -> tuple[str, ...]:
    """Large modules that the program names: imported once, before the forks."""
    wanted = ["numpy"]
    texts = [*_sources(request.before), *(_sources(request.after) if request.after is not None else ())]
    for word, name in (
        ("torchvision", "torchvision"),
        ("transformers", "transformers"),
        ("from accelerate import", "accelerate"),
        ("tensorboard", "torch.utils.tensorboard"),
    ):
        if any(word in text for text in texts):
            wanted.append(name)
    return tuple(wanted)


@contextlib.contextmanager
def _scratch(request: VerifyRequest) -> Iterator[Path]:
    """An empty folder for everything that the check writes."""
    if request.keep is not None:
        request.keep.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=request.keep))
    else:
        folder = Path(tempfile.mkdtemp(prefix=SCRATCH))
    (folder / "states").mkdir()
    # Sockets of loader workers lie in the temporary folder, and their paths must be short.
    short = Path(tempfile.mkdtemp(prefix=SHORT_SCRATCH))
    (folder / "tmp").symlink_to(short)
    try:
        yield folder.resolve()
    finally:
        shutil.rmtree(short, ignore_errors=True)
        (folder / "tmp").unlink()
        if request.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
