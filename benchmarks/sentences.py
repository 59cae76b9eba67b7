"""A report in sentences: what it is, what came out, what to know before believing it, and what the columns mean.

In: a report.  Out: lines of text for the terminal, Markdown and the page.  Never imports torch.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.figures import Comparison, comparisons
from benchmarks.results import Environment, Report, Variant

GLOSSARY = (
    ("step", "one optimizer step; with several processes, its time is that of the slowest one"),
    ("window", "consecutive steps between two synchronisations of the devices; throughput is measured over windows"),
    ("samples/s", "samples of all devices together; per device (or process), that divided by their number"),
    ("p50 to p95", "so many percent of the steps took no longer"),
    ("CV", "standard deviation ÷ mean, of steps or of the windows' throughputs; above 5 % for windows, no verdict"),
    ("first step", "from the start of the process to the end of its first step: imports, data, compilation"),
    ("loader wait", "share of the time in which the training loop waited for its next batch"),
    ("ratio", "samples/s of a form ÷ samples/s of the one that it is held against"),
    (
        "95 % interval",
        "bootstrap over runs, or over windows where there are fewer than three runs; a verdict needs all of it on one side of 1",
    ),
    (
        "efficiency",
        "ratio against one device ÷ number of devices; strong scaling keeps the global batch, weak the batch of each device",
    ),
    (
        "memory",
        "peak within the windows: NVML's where it is known, with CUDA context and NCCL buffers; on a CPU, resident bytes",
    ),
    ("main ÷ others", "memory of the fullest device ÷ mean of the others: DataParallel's main card carries more"),
    ("GPU busy", "NVML's utilisation: share of time with any kernel running, not how well it is used"),
    ("communication", "collectives and copies between devices, with the time that they wait for the slowest rank"),
    ("exposed", "communication that no computation on the same device covers: what it costs; the rest is overlapped"),
    ("gradient sync", "the reductions of gradients alone"),
    ("harness", "share of the time spent in this tool's own hooks"),
)


def header(report: Report) -> Iterator[str]:
    """First what the report is and is not, then how it was measured and on what."""
    if report.source == "typed":
        yield f"{report.program}: figures as stated, typed in; nothing was measured"
    elif report.device == "cpu":
        yield f"{report.program}: measured on the CPU, no GPU was used and nothing here is a claim about GPUs"
    else:
        yield f"{report.program}: measured on {len(report.environment.gpus)} GPU(s)"
    if report.source == "measured":
        runs = f"{report.rounds} round{'s' * (report.rounds != 1)}, each form in turn"
        windows = (
            f"{report.windows_per_run} window{'s' * (report.windows_per_run != 1)} of {report.steps_per_window} steps"
        )
        yield f"{runs}; {windows} after {report.warmup_steps} warm-up steps; {report.created}"
        yield f"command: {report.command}"
    yield from environment_lines(report.environment)


def environment_lines(e: Environment) -> Iterator[str]:
    if e.gpus:
        names = sorted(set(e.gpus))
        p2p = {None: "P2P not known", True: "P2P", False: "no P2P"}[e.p2p]
        yield (
            "GPUs: "
            + ", ".join(f"{e.gpus.count(n)} × {n}" for n in names)
            + f"; {e.topology or 'topology not known'}; {p2p}"
        )
    versions = {
        "driver": e.driver,
        "CUDA": e.cuda,
        "cuDNN": e.cudnn,
        "NCCL": e.nccl,
        "torch": e.torch,
        "accelerate": e.accelerate,
        "Python": e.python,
    }
    shown = [f"{name} {value}" for name, value in versions.items() if value]
    if shown:
        yield ", ".join(shown)
    host = {
        "CPU": e.cpu,
        "CPUs": e.cpus,
        "load at start": None if e.load is None else f"{e.load:.1f}",
        "OMP_NUM_THREADS": e.omp_threads,
        "commit": e.commit,
    }
    shown = [f"{name} {value}" for name, value in host.items() if value is not None]
    if shown:
        yield ", ".join(shown)


def notes(report: Report) -> Iterator[str]:
    """What a reader has to know beside the figures."""
    yield from report.notes
    yield from largest_notes(report)
    left = {v.name: sum(r.left_out for r in v.runs) for v in report.variants}
    if any(left.values()):
        shown = ", ".join(f"{n} {c}" for n, c in left.items() if c)
        yield f"Steps that crossed the end of an epoch (loader restart, evaluation) are left out of every figure: {shown}."
    if any(v.communication for v in report.variants):
        yield (
            "Profiled steps are slower than timed ones. A collective's time includes waiting for the slowest rank. Exposed: not covered by "
            "computation on the same device."
        )


def largest_notes(report: Report) -> Iterator[str]:
    """What the search does not say: once where it is the same for all forms."""
    told: dict[str, list[str]] = {}
    for variant in report.variants:
        if variant.largest is not None and variant.largest.told:
            told.setdefault(variant.largest.told, []).append(variant.name)
    for text, names in told.items():
        yield f"Largest batch, {', '.join(names)}: {text}."


# -------------------------------------------------------------------- what came out
def conclusions(report: Report) -> Iterator[str]:
    """One sentence for each form and base, the figure and its interval in it; then what failed or was not measured."""
    found = {(one.of, one.to): one for one in comparisons(report)}
    for variant in report.variants:
        for base in ("dp", "single"):
            one, to = found.get((variant.name, base)), report.variant(base)
            if one is not None and to is not None:
                yield _sentence(variant, to, one)
    if report.device == "cpu" and found:
        yield "Ratios of CPU processes on this machine: they say nothing about GPUs."
    for variant in report.variants:
        if variant.status == "failed":
            yield f"{_name(variant)} failed: {variant.error}"
        elif variant.status == "not-available":
            yield f"{_name(variant)} could not be made: {variant.error}"
        elif variant.status == "passes-through":
            yield f"{variant.title} was not measured: {variant.error}."
        elif variant.error and variant.runs:
            yield f"{_name(variant)} failed in a later run: {variant.error}"


def _sentence(variant: Variant, to: Variant, one: Comparison) -> str:
    against = f"{_name(variant)} against {to.title}"
    if one.verdict == "no verdict":
        return f"{against}: no verdict. The ratio is {one.speedup:.2f}, but {one.why}."
    place = f"95 % interval {one.interval.low:.2f} to {one.interval.high:.2f}" if one.interval is not None else ""
    if one.verdict == "no difference":
        return f"{against}: no difference that can be told ({one.speedup:.2f} times the throughput; {place})."
    shared = (
        "" if one.efficiency_pct is None else f"; that is {one.efficiency_pct:.0f} % of {one.devices} times one device"
    )
    return f"{against}: {one.verdict}, {one.speedup:.2f} times the throughput ({place}){shared}."


def _name(variant: Variant) -> str:
    many = f" on {variant.devices} devices" if variant.devices > 1 else ""
    return f"{variant.title}{many}"


def forms(report: Report) -> Iterator[tuple[str, str]]:
    """What the names of the variants stand for, and how each was started."""
    for variant in report.variants:
        yield variant.name, " — ".join(part for part in (variant.title, variant.launch) if part)
