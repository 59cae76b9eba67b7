"""A report as text for a terminal, and as Markdown for a pull request.

In: a report.  Out: text; every figure has its unit, every ratio its denominator.  Never imports torch.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from benchmarks.figures import Comparison, comparisons, summarise
from benchmarks.honesty import ABOVE_LINEAR, find_warnings
from benchmarks.results import Environment, Report, Variant

WIDTH = 118
PASSES_THROUGH = "passes through, not measured"


def number(value: float | None, digits: int = 3) -> str:
    """Three significant digits and no exponent; – where nothing is known."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{max(0, digits - 1 if abs(value) < 1 else digits - len(str(int(abs(value)))))}f}"


def gib(size: float | None) -> str:
    return "–" if size is None else number(size / 2**30)


def with_unit(value: float | None, unit: str) -> str:
    return "–" if value is None else f"{number(value)} {unit}"


# -------------------------------------------------------------------- tables
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


# -------------------------------------------------------------------- text
def to_text(report: Report) -> str:
    lines = [*header(report), ""]
    lines += table(*throughput_rows(report))
    failed = [v for v in report.variants if v.error]
    for variant in failed:
        lines += ["", *textwrap.wrap(f"{variant.name}: {variant.error}", WIDTH, subsequent_indent="  ")]
    if any(summarise(v) for v in report.variants):
        lines += ["", *table(*memory_rows(report))]
    head, rows = communication_rows(report)
    if rows:
        lines += ["", *table(head, rows)]
    compared = comparisons(report)
    if compared:
        lines += ["", *table(*comparison_rows(report, compared))]
        if report.device == "cpu":
            lines.append("Ratios of CPU processes on this machine: they say nothing about GPUs.")
        lines += [
            f"  {one.of} against {one.to}: no verdict, {one.why}" for one in compared if one.verdict == "no verdict"
        ]
    warnings = find_warnings(report)
    if warnings:
        lines += ["", "Warnings"]
        for warning in warnings:
            place = f" {warning.variant}" if warning.variant else ""
            lines += textwrap.wrap(
                f"{warning.code}{place}: {warning.message}", WIDTH, initial_indent="  ", subsequent_indent="    "
            )
    notes = list(reading_notes(report))
    if notes:
        lines += [""]
        for note in notes:
            lines += textwrap.wrap(note, WIDTH, subsequent_indent="  ")
    return "\n".join(lines) + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns two spaces apart; a cell that has the rest of its row to itself does not widen its column."""
    widths = [len(cell) for cell in head]
    for row in rows:
        for i, cell in enumerate(row):
            if any(row[i + 1 :]) or i == len(head) - 1:
                widths[i] = max(widths[i], len(cell))
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in [head, *rows]]


def header(report: Report) -> Iterator[str]:
    if report.source == "typed":
        yield f"{report.program}: figures as stated, typed in; nothing was measured"
    elif report.device == "cpu":
        yield f"{report.program}: measured on the CPU, no GPU was used and nothing here is a claim about GPUs"
    else:
        yield f"{report.program}: measured on {len(report.environment.gpus)} GPU(s)"
    if report.source == "measured":
        runs = f"{report.rounds} round(s), each form in turn; {report.windows_per_run} window(s) of {report.steps_per_window} steps"
        yield f"{runs} after {report.warmup_steps} warm-up steps; {report.created}"
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


def reading_notes(report: Report) -> Iterator[str]:
    """What a reader has to know beside the figures."""
    yield from report.notes
    left = {v.name: sum(r.left_out for r in v.runs) for v in report.variants}
    if any(left.values()):
        shown = ", ".join(f"{n} {c}" for n, c in left.items() if c)
        yield f"Steps that crossed the end of an epoch (loader restart, evaluation) are left out of every figure: {shown}."
    if any(v.communication for v in report.variants):
        yield (
            "Communication is from a profile of other steps than the timed ones; a collective's time includes waiting for the slowest "
            "rank. Exposed: not covered by computation on the same device."
        )


# -------------------------------------------------------------------- markdown
def to_markdown(report: Report) -> str:
    lines = [f"### Benchmark of `{report.program}`", ""]
    lines += [f"{line}  " for line in header(report)]
    lines += ["", *_markdown(*throughput_rows(report))]
    for rows in (memory_rows, communication_rows):
        head, body = rows(report)
        if body:
            lines += ["", *_markdown(head, body)]
    compared = comparisons(report)
    if compared:
        lines += ["", *_markdown(*comparison_rows(report, compared))]
        if report.device == "cpu":
            lines += ["", "Ratios of CPU processes on this machine: they say nothing about GPUs."]
    for variant in report.variants:
        if variant.error:
            lines += ["", f"**{variant.name}**: {_cell(variant.error)}"]
    warnings = find_warnings(report)
    if warnings:
        lines += ["", "**Warnings**", ""]
        lines += [f"- `{w.code}`{' ' + w.variant if w.variant else ''}: {_cell(w.message)}" for w in warnings]
    notes = list(reading_notes(report))
    if notes:
        lines += ["", *(f"{_cell(note)}  " for note in notes)]
    return "\n".join(lines) + "\n"


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(map(_cell, row)) + " |" for row in [head, ["---"] * len(head), *rows]]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
