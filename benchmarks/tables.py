"""A report as tables: heads and rows of text, every figure with its unit and every ratio with its denominator.

In: a report.  Out: rows, which the terminal, Markdown and the page lay out.  Never imports torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.figures import Comparison, comparisons, summarise
from benchmarks.honesty import ABOVE_LINEAR
from benchmarks.results import Report, Variant

PASSES_THROUGH = "passes through, not measured"


@dataclass(frozen=True, slots=True)
class Section:
    """A table with its title, and in a few words what its figures are."""

    title: str
    about: str
    head: list[str]
    rows: list[list[str]]


def sections(report: Report) -> list[Section]:
    """The tables of a report that have something in them."""
    count = "process" if report.device == "cpu" else "device"
    found = [Section("Throughput", f"of all and of each {count}; step times in ms", *throughput_rows(report))]
    compared = comparisons(report)
    if compared:
        found.append(Section("Ratios", "throughput of a form ÷ that of another", *comparison_rows(report, compared)))
    found.append(Section("Memory and waiting", "peaks within the windows", *memory_rows(report)))
    found.append(Section("Communication", "per step, from a profile of other steps", *communication_rows(report)))
    found.append(Section("Largest batch", "same samples, repeated", *largest_rows(report)))
    return [one for one in found if one.rows]


def number(value: float | None, digits: int = 3) -> str:
    """Three significant digits and no exponent; – where nothing is known."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if abs(value) < 0.005:
        return "< 0.01"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{max(0, digits - 1 if abs(value) < 1 else digits - len(str(int(abs(value)))))}f}"


def gib(size: float | None) -> str:
    return "–" if size is None else number(size / 2**30)


def with_unit(value: float | None, unit: str) -> str:
    return "–" if value is None else f"{number(value)} {unit}"


def throughput_rows(report: Report) -> tuple[list[str], list[list[str]]]:
    unit, plural = ("device", "devices") if report.device == "cuda" else ("process", "processes")
    head = [
        "variant",
        plural,
        "samples/s",
        f"per {unit}",
        "step p50",
        "p75",
        "p90",
        "p95 ms",
        "CV steps",
        "CV windows",
        "first step s",
    ]
    rows = []
    for variant in report.variants:
        f = summarise(variant)
        if f is None:
            rows.append([variant.name, str(variant.devices), nothing(variant), *[""] * 8])
            continue
        rows.append(
            [
                variant.name,
                str(variant.devices),
                number(f.samples_per_s) if f.samples_per_s is not None else f"{number(f.steps_per_s)} steps/s",
                number(f.device_samples_per_s),
                *(number(v) for v in (f.p50_ms, f.p75_ms, f.p90_ms, f.p95_ms)),
                with_unit(f.step_cv_pct, "%"),
                with_unit(f.window_cv_pct, "%"),
                number(f.first_step_s),
            ]
        )
    return head, rows


def nothing(variant: Variant) -> str:
    """What stands in the place of figures."""
    if variant.status == "passes-through":
        return PASSES_THROUGH
    return "failed" if variant.status == "failed" else "not available" if variant.status == "not-available" else "–"


def memory_rows(report: Report) -> tuple[list[str], list[list[str]]]:
    if report.device == "cpu" and report.source == "measured":
        head = ["variant", "peak resident GiB, largest process", "loader wait", "CPU share, least", "harness"]
    else:
        head = ["variant", "fullest device GiB", "used / total", "main ÷ others", "loader wait", "GPU busy", "harness"]
    rows = []
    for variant in report.variants:
        f = summarise(variant)
        if f is None:
            continue
        wait, hook = with_unit(f.loader_wait_pct, "%"), with_unit(f.hook_pct, "%")
        if head[3].startswith("CPU"):
            shares = [r.cpu_share for r in variant.runs if r.cpu_share is not None]
            rows.append([variant.name, gib(f.memory_peak), wait, f"{min(shares):.0%}" if shares else "–", hook])
        else:
            busy = with_unit(f.utilisation_pct, "%")
            rows.append(
                [variant.name, gib(f.memory_peak), with_unit(f.memory_pct, "%"), number(f.imbalance), wait, busy, hook]
            )
    return head, rows


def communication_rows(report: Report) -> tuple[list[str], list[list[str]]]:
    head = [
        "variant",
        "communication ms/step",
        "exposed ms",
        "of step",
        "exposed of step",
        "overlapped",
        "gradient sync ms",
        "method",
    ]
    rows = []
    for variant in report.variants:
        c = variant.communication
        if c is not None:
            rows.append(
                [
                    variant.name,
                    number(c.total_ms),
                    number(c.exposed_ms),
                    with_unit(c.share_pct, "%"),
                    with_unit(c.exposed_pct, "%"),
                    with_unit(c.overlap_pct, "%"),
                    number(c.gradient_sync_ms),
                    c.method,
                ]
            )
    return head, rows


def largest_rows(report: Report) -> tuple[list[str], list[list[str]]]:
    """What --max-batch found."""
    unit = "device" if report.device == "cuda" else "process"
    if report.device == "cuda":
        head = ["variant", f"largest batch per {unit}", "in all", "samples/s", f"own batch per {unit}"]
        head += ["did not fit", "MiB per sample"]
    else:
        head = [
            "variant",
            f"own batch per {unit}",
            "samples/s",
            f"tried per {unit}",
            "samples/s",
            "MiB per sample",
        ]
    rows = []
    for variant in report.variants:
        found = variant.largest
        if found is None:
            continue
        each = number(found.bytes_per_sample / 2**20) if found.bytes_per_sample else "–"
        if report.device == "cuda":
            batch = found.per_device_batch
            own = str(found.attempts[0].per_device_batch) if found.attempts else "–"
            size = [
                "not found" if batch is None else str(batch),
                "–" if batch is None else str(batch * variant.devices),
            ]
            failed = "–" if found.too_large is None else str(found.too_large)
            rows.append([variant.name, *size, number(found.samples_per_s), own, failed, each])
        else:
            tries = [cell for one in found.attempts for cell in (str(one.per_device_batch), number(one.samples_per_s))]
            rows.append([variant.name, *[*tries, *["–"] * 4][:4], each])
    return head, rows


def comparison_rows(report: Report, compared: Sequence[Comparison]) -> tuple[list[str], list[list[str]]]:
    head = ["variant", "against", "ratio", "95 % interval", "efficiency", "verdict"]
    rows = []
    for one in compared:
        rows.append([one.of, one.to, f"{one.speedup:.2f}× {one.basis}", interval(one), efficiency(one), one.verdict])
    return head, rows


def interval(one: Comparison) -> str:
    if one.interval is None:
        return "–"
    plural = f"{one.interval.values} {one.interval.unit}{'s' * (one.interval.values != 1)}"
    return f"{one.interval.low:.2f} to {one.interval.high:.2f} ({plural})"


def efficiency(one: Comparison) -> str:
    """Speedup ÷ devices; above 100 % only with the reason beside it."""
    if one.efficiency_pct is None:
        return "–"
    kind = f"{one.scaling} scaling" if one.scaling else "batches unknown"
    shown = f"{one.speedup:.2f} / {one.devices} = {one.efficiency_pct:.0f} %"
    if one.efficiency_pct > ABOVE_LINEAR * 100:
        return f"{shown}: above linear, see SUPERLINEAR"
    return f"{shown} ({kind})"
