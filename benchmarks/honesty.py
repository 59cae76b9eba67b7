"""Warnings: what keeps a figure of a report from meaning what it seems to mean.

In: a report.  Out: `Warning`s with codes, most serious first.  Bounds are those of facts/performance.md, B3.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.anchors import TOLERANCE, find_anchor
from benchmarks.figures import NOISE_CV, Figures, busiest, compare_variants, summarise
from benchmarks.results import Report, Variant, Warning

ABOVE_LINEAR = 1.02  # × devices
WAITING = 0.10  # share of a step spent in the loader
BATCH_TOLERANCE = 0.01
CPU_LEAST = 0.85  # CPU time of a CPU-bound process ÷ (time − loader wait)
CLOCKS_APART = 0.05
HOOKS_MOST = 0.02

CODES = {
    "SUPERLINEAR": "more than one device's speed times the number of devices: the two sides did not do the same work",
    "BELOW_ANCHOR": "slower than published runs of the same model on this GPU",
    "GLOBAL_BATCH_CHANGED": "the two sides do not take the same number of samples per step",
    "UNEQUAL_WORK": "loader workers, precision or memory format differ between the sides",
    "NO_EXCHANGE": "the processes exchanged nothing: each trains for itself, or the model was not wrapped on this device",
    "IDLE_DEVICES": "not all devices that it was given were used: per device and efficiency mean less",
    "CLAIM": "a stated figure does not follow from the runs",
    "NOISY": "windows vary by more than the bound: no verdict",
    "CONTENDED": "other work competed for the machine",
    "DATA_BOUND": "the step waits for the loader: GPUs are not what limits it",
    "NO_P2P": "the GPUs cannot reach each other's memory",
    "CLOCKS": "the GPUs' clocks were lowered, or differ between the sides",
    "HOOKS": "the harness itself took more than its share",
}


def find_warnings(report: Report) -> list[Warning]:
    """All warnings of a report, in the order of `CODES`."""
    found = list(_find(report))
    order = list(CODES)
    return sorted(found, key=lambda w: order.index(w.code))


def _find(report: Report) -> Iterator[Warning]:
    single = report.variant("single")
    base = single if single is not None and summarise(single) is not None else report.variant("dp")
    for variant in report.variants:
        figures = summarise(variant)
        if figures is None:
            continue
        yield from _variant(report, variant, figures)
        if single is not None and variant is not single:
            yield from _superlinear(report, variant, single)
        if base is not None and variant is not base:
            yield from _unequal(variant, base)
    yield from _machine(report)


def _superlinear(report: Report, variant: Variant, single: Variant) -> Iterator[Warning]:
    compared = compare_variants(variant, single)
    if compared is None or compared.speedup <= ABOVE_LINEAR * variant.devices:
        return
    each = compared.speedup / variant.devices
    why = (
        "processes that compete with others get more CPU time when there are more of them"
        if report.device == "cpu"
        else "typical causes: more loader workers in all, another precision, another batch, a single run that waited for data"
    )
    yield Warning(
        "SUPERLINEAR",
        variant.name,
        f"{compared.speedup:.2f}× on {variant.devices} devices: each would be {each:.2f} times as fast as alone, at the same work. "
        f"Not a speedup of scaling; {why}",
    )


def _unequal(variant: Variant, base: Variant) -> Iterator[Warning]:
    ours, theirs = variant.work, base.work
    if ours is None or theirs is None:
        return
    if ours.global_batch and theirs.global_batch:
        ratio = ours.global_batch / theirs.global_batch
        if abs(ratio - 1) > BATCH_TOLERANCE:
            yield Warning(
                "GLOBAL_BATCH_CHANGED",
                variant.name,
                f"{ours.global_batch:g} samples per step, {base.name} {theirs.global_batch:g}: compare samples/s only, and expect "
                "other training",
            )
    rows = {
        "loader workers": (ours.loader_workers, theirs.loader_workers),
        "precision": (ours.precision, theirs.precision),
        "TF32": (ours.tf32, theirs.tf32),
        "channels_last": (ours.channels_last, theirs.channels_last),
        "optimizer": (ours.optimizer, theirs.optimizer),
    }
    apart = [f"{n} {a} (here), {b} ({base.name})" for n, (a, b) in rows.items() if None not in (a, b) and a != b]
    if apart:
        remedy = (
            "; --workers N gives every side the same number in all" if any("workers" in row for row in apart) else ""
        )
        yield Warning("UNEQUAL_WORK", variant.name, "; ".join(apart) + remedy)


def _variant(report: Report, variant: Variant, figures: Figures) -> Iterator[Warning]:
    if figures.window_cv_pct is not None and figures.window_cv_pct > NOISE_CV * 100:
        yield Warning(
            "NOISY",
            variant.name,
            f"throughput of its {figures.windows} windows varies by {figures.window_cv_pct:.1f} % (bound {NOISE_CV:.0%}): no verdict; "
            "quiet the machine, or take longer windows (--steps)",
        )
    if figures.loader_wait_pct is not None and figures.loader_wait_pct > WAITING * 100:
        yield Warning(
            "DATA_BOUND",
            variant.name,
            f"{figures.loader_wait_pct:.0f} % of the time is spent waiting for the loader: more workers, or cheaper data, before more GPUs",
        )
    cpus = report.environment.cpus
    load = busiest(variant)
    if cpus and load is not None and load > cpus:
        yield Warning("CONTENDED", variant.name, f"load average {load:.1f} on {cpus} CPUs before a run: no verdict")
    elif report.device == "cpu" and variant.processes == 1:
        shares = [r.cpu_share / max(1 - (r.loader_wait or 0), 0.01) for r in variant.runs if r.cpu_share is not None]
        if shares and min(shares) < CPU_LEAST:
            yield Warning("CONTENDED", variant.name, f"its process got a CPU for only {min(shares):.0%} of the time")
    if figures.hook_pct is not None and figures.hook_pct > HOOKS_MOST * 100:
        yield Warning(
            "HOOKS",
            variant.name,
            f"{figures.hook_pct:.1f} % of the time was spent inside the harness (bound {HOOKS_MOST:.0%})",
        )
    shared = variant.name == "dp" and variant.devices > 1  # what DataParallel costs is no fault of the run
    if report.device == "cuda" and report.environment.gpus and figures.device_samples_per_s and not shared:
        anchor = find_anchor(report.environment.gpus[0], report.model)
        if anchor is not None and figures.device_samples_per_s < TOLERANCE * anchor.samples_per_s:
            times = anchor.samples_per_s / figures.device_samples_per_s
            yield Warning(
                "BELOW_ANCHOR",
                variant.name,
                f"{figures.device_samples_per_s:.0f} samples/s per GPU; published {anchor.samples_per_s:g} ({anchor.conditions}; "
                f"{anchor.source}), {times:.1f} times as many: probably input-bound, in FP32, or other work than the name says",
            )
    unused = _unused(variant)
    if unused:
        yield Warning(
            "IDLE_DEVICES",
            variant.name,
            f"nothing was allocated on {', '.join(unused)}, of {variant.devices} devices: do the program's arguments name all of them?",
        )
    exchanged = variant.communication
    if exchanged is not None and variant.processes > 1 and exchanged.total_ms == 0:
        yield Warning(
            "NO_EXCHANGE",
            variant.name,
            f"no communication in {exchanged.steps} profiled steps of {variant.processes} processes: is the model wrapped on this device "
            "(a guard such as `if use_cuda:`)? Its figures are not those of training together",
        )
    reasons = sorted({reason for run in variant.runs for reason in run.throttled})
    if reasons:
        yield Warning("CLOCKS", variant.name, f"clocks were lowered while it ran: {', '.join(reasons)}")


def _unused(variant: Variant) -> list[str]:
    """Devices on which no run allocated a tensor; none where that is not known."""
    most: dict[str, int] = {}
    for run in variant.runs:
        for one in run.memory:
            if one.allocated is not None:
                most[one.device] = max(most.get(one.device, 0), one.allocated)
    return [device for device, size in most.items() if size == 0] if any(most.values()) else []


def _machine(report: Report) -> Iterator[Warning]:
    several = [v.name for v in report.variants if v.devices > 1 and v.runs]
    if report.environment.p2p is False and several and report.device == "cuda":
        yield Warning("NO_P2P", None, f"copies between GPUs go through main memory: {', '.join(several)} pay for it")
    means = {}
    for variant in report.variants:
        clocks = [c for run in variant.runs for c in run.clocks_mhz]
        if clocks:
            means[variant.name] = sum(clocks) / len(clocks)
    if means and max(means.values()) > min(means.values()) * (1 + CLOCKS_APART):
        shown = ", ".join(f"{name} {mean:.0f} MHz" for name, mean in means.items())
        yield Warning("CLOCKS", None, f"mean SM clocks differ between the sides: {shown}")
    single = report.variant("single")
    for claim in report.claims:
        claimed = report.variant(claim.variant)
        if claimed is None or single is None:
            continue
        compared = compare_variants(claimed, single)
        if compared is None:
            continue
        if claim.quantity == "speedup":
            found, shown, unit = compared.speedup, f"{compared.speedup:.2f}×", "×"
        elif compared.efficiency_pct is not None:
            stated = [c.value for c in report.claims if c.variant == claim.variant and c.quantity == "speedup"]
            speedup = stated[0] if stated else compared.speedup
            found, unit = speedup / claimed.devices * 100, " %"
            shown = f"{speedup:.3g} / {claimed.devices}: that is {found:.0f} %"
        else:
            continue
        if abs(found / claim.value - 1) > 0.05:
            yield Warning(
                "CLAIM",
                claim.variant,
                f"{claim.stated_by} states {claim.value:g}{unit}; {claim.value:g}{unit} is not {shown}",
            )
