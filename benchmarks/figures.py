"""Figures of a report, with their denominators.

In: variants.  Out: `Figures` of each and `Comparison`s between them.  Confidence intervals are scipy's bootstrap; without
scipy, or with fewer than three values a side, there is none, and it is said why.  Never imports torch.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.results import Report, Variant

# A window's throughput varies by more: no verdict (facts/performance.md B3, NOISY).
NOISE_CV = 0.05
LEAST_VALUES = 3
RESAMPLES = 4999


@dataclass(frozen=True, slots=True)
class Figures:
    """One variant in numbers; None where it was not known."""

    samples_per_s: float | None  # in all
    device_samples_per_s: float | None
    steps_per_s: float
    p50_ms: float | None
    p75_ms: float | None
    p90_ms: float | None
    p95_ms: float | None
    mean_ms: float | None
    step_cv_pct: float | None
    window_cv_pct: float | None  # of throughput, between windows
    windows: int
    first_step_s: float | None
    loader_wait_pct: float | None
    hook_pct: float | None
    memory_peak: int | None  # bytes, of the fullest device
    memory_pct: float | None  # used / total, of the fullest device
    imbalance: float | None  # fullest device ÷ mean of the others
    utilisation_pct: float | None


Verdict = Literal["faster", "slower", "no difference", "no verdict"]


@dataclass(frozen=True, slots=True)
class Interval:
    """95 % of the bootstrap's ratios lie here; `unit` is what was resampled."""

    low: float
    high: float
    unit: Literal["run", "window"]
    values: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """`of` against `to`: ratio of throughputs."""

    of: str
    to: str
    speedup: float
    interval: Interval | None
    no_interval: str  # why there is none
    basis: Literal["samples/s", "steps/s"]
    scaling: Literal["strong", "weak"] | None  # against one device only
    efficiency_pct: float | None  # speedup ÷ devices, against one device only
    devices: int
    verdict: Verdict
    why: str


def percentile(values: Sequence[float], share: float) -> float:
    """Linear interpolation between the two nearest ranks; values need not be sorted."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def variation(values: Sequence[float]) -> float | None:
    """Coefficient of variation: sample standard deviation ÷ mean; None for fewer than two values."""
    if len(values) < 2:
        return None
    mean = statistics.fmean(values)
    return statistics.stdev(values) / mean if mean else None


def rates(variant: Variant, basis: str = "samples/s") -> list[list[float]]:
    """Throughput of each window, by run."""
    found = []
    for run in variant.runs:
        row = []
        for window in run.windows:
            amount = window.samples if basis == "samples/s" else float(window.steps)
            if amount is not None and window.seconds > 0:
                row.append(amount / window.seconds)
        if row:
            found.append(row)
    return found


def summarise(variant: Variant) -> Figures | None:
    """None for a variant without a run."""
    windows = [w for run in variant.runs for w in run.windows]
    seconds = sum(w.seconds for w in windows)
    if not windows or seconds <= 0:
        return None
    known = [w.samples for w in windows if w.samples is not None]
    samples = sum(known) / seconds if len(known) == len(windows) else None
    steps = [ms for run in variant.runs for ms in run.step_ms]
    flat = [rate for row in rates(variant, "samples/s" if samples is not None else "steps/s") for rate in row]
    wait, hook, step_cv, window_cv = (
        _largest([run.loader_wait for run in variant.runs]),
        _largest([run.hook_share for run in variant.runs]),
        variation(steps),
        variation(flat),
    )
    memory = _memory(variant)
    busy = [u for run in variant.runs for u in run.utilisation_pct]
    first = [run.first_step_s for run in variant.runs if run.first_step_s is not None]
    return Figures(
        samples_per_s=samples,
        device_samples_per_s=samples / variant.devices if samples is not None else None,
        steps_per_s=sum(w.steps for w in windows) / seconds,
        p50_ms=percentile(steps, 0.50) if steps else None,
        p75_ms=percentile(steps, 0.75) if steps else None,
        p90_ms=percentile(steps, 0.90) if steps else None,
        p95_ms=percentile(steps, 0.95) if steps else None,
        mean_ms=statistics.fmean(steps) if steps else None,
        step_cv_pct=_percent(step_cv),
        window_cv_pct=_percent(window_cv),
        windows=len(windows),
        first_step_s=statistics.median(first) if first else None,
        loader_wait_pct=_percent(wait),
        hook_pct=_percent(hook),
        memory_peak=memory[0],
        memory_pct=memory[1],
        imbalance=memory[2],
        utilisation_pct=statistics.fmean(busy) if busy else None,
    )


def _percent(share: float | None) -> float | None:
    return None if share is None else share * 100


def _largest(values: Sequence[float | None]) -> float | None:
    return max((v for v in values if v is not None), default=None)


def _memory(variant: Variant) -> tuple[int | None, float | None, float | None]:
    peaks: dict[str, int] = {}
    totals: dict[str, int] = {}
    for run in variant.runs:
        for one in run.memory:
            used = one.used if one.used is not None else one.reserved if one.reserved is not None else one.allocated
            if used is not None:
                peaks[one.device] = max(peaks.get(one.device, 0), used)
            if one.total:
                totals[one.device] = one.total
    if not peaks:
        return None, None, None
    fullest = max(peaks, key=lambda d: peaks[d])
    others = [v for d, v in peaks.items() if d != fullest]
    share = peaks[fullest] / totals[fullest] * 100 if fullest in totals else None
    return peaks[fullest], share, peaks[fullest] / statistics.fmean(others) if others and sum(others) else None


# -------------------------------------------------------------------- comparisons
def compare_variants(of: Variant, to: Variant, cpus: int | None = None) -> Comparison | None:
    """The ratio of throughputs; None where one of them has no run.  `cpus`: of the machine, to tell whether it was busy."""
    ours, theirs = summarise(of), summarise(to)
    if ours is None or theirs is None:
        return None
    basis: Literal["samples/s", "steps/s"] = "samples/s"
    one, other = ours.samples_per_s, theirs.samples_per_s
    if one is None or other is None:
        basis, one, other = "steps/s", ours.steps_per_s, theirs.steps_per_s
    if not other:
        return None
    interval, missing = bootstrap_ratio(rates(of, basis), rates(to, basis))
    alone = to.devices == 1 and of.devices >= 1
    verdict, why = _verdict(of, to, interval, missing, (ours, theirs), cpus)
    return Comparison(
        of=of.name,
        to=to.name,
        speedup=one / other,
        interval=interval,
        no_interval=missing,
        basis=basis,
        scaling=_scaling(of, to) if alone and of.devices > 1 else None,
        efficiency_pct=one / other / of.devices * 100 if alone and of.devices > 1 else None,
        devices=of.devices,
        verdict=verdict,
        why=why,
    )


def busiest(variant: Variant) -> float | None:
    """The highest load average that a run of the variant found when it began."""
    return _largest([run.load_before for run in variant.runs])


def _scaling(of: Variant, to: Variant) -> Literal["strong", "weak"] | None:
    """Strong: the same global batch over more devices.  Weak: the same batch on each device."""
    if of.work is None or to.work is None or not of.work.global_batch or not to.work.global_batch:
        return None
    ratio = of.work.global_batch / to.work.global_batch
    if abs(ratio - 1) < 0.05:
        return "strong"
    return "weak" if abs(ratio - of.devices) < 0.05 * of.devices else None


def _verdict(
    of: Variant,
    to: Variant,
    interval: Interval | None,
    missing: str,
    figures: tuple[Figures, Figures],
    cpus: int | None,
) -> tuple[Verdict, str]:
    if "typed" in (of.status, to.status):
        return "no verdict", "figures were typed in, not measured"
    noisy = [
        f"{v.name} {f.window_cv_pct:.0f} %"
        for v, f in zip((of, to), figures, strict=True)
        if f.window_cv_pct is not None and f.window_cv_pct > NOISE_CV * 100
    ]
    if noisy:
        return "no verdict", f"windows vary too much ({', '.join(noisy)}; bound {NOISE_CV:.0%})"
    busy = max(busiest(of) or 0.0, busiest(to) or 0.0)
    if cpus and busy > cpus:
        return "no verdict", f"others computed on this machine (load average {busy:.1f} on {cpus} CPUs)"
    if interval is None:
        return "no verdict", missing
    if interval.low > 1:
        return "faster", "the whole interval is above 1"
    if interval.high < 1:
        return "slower", "the whole interval is below 1"
    return "no difference", "the interval holds 1"


def bootstrap_ratio(
    ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]], seed: int = 0
) -> tuple[Interval | None, str]:
    """Interval of mean(ours) / mean(theirs).  Rows are runs.

    Windows of one run share its luck, so runs are resampled where there are three on each side, else windows.
    """
    unit: Literal["run", "window"] = "run"
    a, b = [statistics.fmean(row) for row in ours if row], [statistics.fmean(row) for row in theirs if row]
    if min(len(a), len(b)) < LEAST_VALUES:
        unit = "window"
        a, b = [v for row in ours for v in row], [v for row in theirs for v in row]
    least = min(len(a), len(b))
    if least < LEAST_VALUES:
        return None, f"{least} window{'s' * (least != 1)} on one side: an interval needs {LEAST_VALUES}"
    try:
        import numpy as np
        from scipy.stats import bootstrap  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return None, "scipy is not installed: pip install 'mgmigrate[bench]'"
    if len(set(a)) == 1 and len(set(b)) == 1:
        return Interval(a[0] / b[0], a[0] / b[0], unit, least), ""
    found = bootstrap(
        (a, b),
        lambda x, y, axis=-1: np.mean(x, axis=axis) / np.mean(y, axis=axis),
        vectorized=True,
        n_resamples=RESAMPLES,
        method="percentile",  # BCa's correction is not defined for three values
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Interval(float(found.low), float(found.high), unit, least), ""


def comparisons(report: Report) -> list[Comparison]:
    """Every variant against one device, and against DataParallel."""
    found = []
    for base in ("single", "dp"):
        to = report.variant(base)
        for of in report.variants:
            if to is not None and of.name != base and not (base == "dp" and of.name == "single"):
                one = compare_variants(of, to, report.environment.cpus)
                if one is not None:
                    found.append(one)
    return found
