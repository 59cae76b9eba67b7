"""A report as one HTML page with plots: opens without a network, asks for nothing, runs no script.

In: a report.  Out: HTML with inline SVG: throughput, distribution of step times, memory per device, where a step goes.  Needs no
plotting library.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from benchmarks.figures import comparisons, percentile, summarise
from benchmarks.honesty import CODES, find_warnings
from benchmarks.results import DeviceMemory, Report
from benchmarks.show import (
    communication_rows,
    comparison_rows,
    header,
    memory_rows,
    number,
    reading_notes,
    throughput_rows,
)

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; color: #1c2430; background: #fff; }
h1 { font-size: 1.5rem; margin-bottom: .3rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid #dfe3e8; white-space: nowrap; }
th { font-weight: 600; color: #556; } .note { color: #556; } .code { font-weight: 700; color: #8a3b00; }
.warnings { background: #fff6ea; border-left: 4px solid #d9822b; padding: .5rem 1rem; }
.warnings li { margin: .3rem 0; } svg { width: 100%; height: auto; } svg text { font: 13px system-ui, sans-serif; fill: #1c2430; }
svg .muted { fill: #667; }
"""
_COLOURS = {"single": "#8d99a6", "dp": "#d9822b", "ddp": "#2b6cb0", "accelerate": "#2f855a"}
_WIDTH, _LEFT, _ROW = 860, 130, 34


def to_html(report: Report) -> str:
    parts = list(header(report))
    body = [f"<h1>Benchmark of {escape(report.program)}</h1>", *(f'<div class="note">{escape(p)}</div>' for p in parts)]
    warnings = find_warnings(report)
    if warnings:
        body += ["<h2>Warnings</h2>", '<ul class="warnings">']
        for one in warnings:
            place = f" {escape(one.variant)}" if one.variant else ""
            body.append(
                f'<li><span class="code" title="{escape(CODES[one.code])}">{one.code}</span>{place}: {escape(one.message)}</li>'
            )
        body.append("</ul>")
    body += ["<h2>Throughput</h2>", *_throughput(report), *_table(*throughput_rows(report))]
    body += [f'<p class="note">{escape(v.name)}: {escape(v.error)}</p>' for v in report.variants if v.error]
    compared = comparisons(report)
    if compared:
        body += ["<h2>Ratios</h2>", *_table(*comparison_rows(report, compared))]
        if report.device == "cpu":
            body.append('<p class="note">Ratios of CPU processes on this machine: they say nothing about GPUs.</p>')
    for title, plot in (
        ("Step times", _steps(report)),
        ("Memory per device", _memory(report)),
        ("Where a step goes", _communication(report)),
    ):
        drawn = list(plot)
        if drawn:
            body += [f"<h2>{title}</h2>", *drawn]
    body += ["<h2>Waiting and memory</h2>", *_table(*memory_rows(report))]
    head, rows = communication_rows(report)
    if rows:
        body += ["<h2>Communication</h2>", *_table(head, rows)]
    body += [f'<p class="note">{escape(note)}</p>' for note in reading_notes(report)]
    text = "\n".join(body)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Benchmark of {escape(report.program)}</title><style>{_STYLE}</style></head>\n<body>\n{text}\n</body></html>\n"
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "<table><tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"
    for row in rows:
        filled = max(
            (i + 1 for i, cell in enumerate(row) if cell), default=1
        )  # the last words have the rest of the row
        span = f' colspan="{len(row) - filled + 1}"' if filled < len(row) else ""
        cells = [f"<td>{escape(cell)}</td>" for cell in row[: filled - 1]]
        yield "<tr>" + "".join(cells) + f"<td{span}>{escape(row[filled - 1])}</td></tr>"
    yield "</table>"


def _colour(name: str) -> str:
    return _COLOURS.get(name, "#6b46c1")


def _svg(rows: Sequence[str], height: int, title: str) -> Iterator[str]:
    if rows:
        yield (
            f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">' + "".join(rows) + "</svg>"
        )


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(text)}</text>'


def _bar(x: float, y: float, width: float, colour: str, tip: str, opacity: float = 1.0) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" height="20" fill="{colour}" fill-opacity="{opacity}">'
        f"<title>{escape(tip)}</title></rect>"
    )


def _throughput(report: Report) -> Iterator[str]:
    """One bar per form; dots are the windows."""
    found = []
    for variant in report.variants:
        figures = summarise(variant)
        if figures is not None and figures.samples_per_s is not None:
            rates = [w.samples / w.seconds for r in variant.runs for w in r.windows if w.samples is not None]
            found.append((variant, figures.samples_per_s, rates))
    most = max((max(rates) for _, _, rates in found), default=0.0)
    rows = []
    scale = (_WIDTH - _LEFT - 140) / most if most else 0
    for i, (variant, rate, rates) in enumerate(found):
        y = i * _ROW + 4
        shown = f"{number(rate)} samples/s"
        rows += [_text(0, y + 15, variant.name), _bar(_LEFT, y, rate * scale, _colour(variant.name), shown, 0.75)]
        rows += [f'<circle cx="{_LEFT + r * scale:.1f}" cy="{y + 10}" r="3" fill="#1c2430"/>' for r in rates]
        rows.append(_text(_LEFT + most * scale + 12, y + 15, shown))
    yield from _svg(rows, len(found) * _ROW + 4, "throughput of each form")


def _steps(report: Report) -> Iterator[str]:
    """From the fastest step to the slowest; the box is the middle half, the line the median."""
    found = [(v.name, [ms for r in v.runs for ms in r.step_ms]) for v in report.variants]
    found = [(name, steps) for name, steps in found if steps]
    most = max((percentile(steps, 0.99) for _, steps in found), default=0.0)
    if not most:
        return
    scale = (_WIDTH - _LEFT - 140) / most
    rows = []
    for i, (name, steps) in enumerate(found):
        y = i * _ROW + 4
        low, q1, mid, q3, high = (percentile(steps, share) * scale + _LEFT for share in (0.01, 0.25, 0.5, 0.75, 0.99))
        rows += [
            _text(0, y + 15, name),
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y + 10}" y2="{y + 10}" stroke="{_colour(name)}"/>',
            _bar(
                q1,
                y,
                q3 - q1,
                _colour(name),
                f"{number(percentile(steps, 0.25))} to {number(percentile(steps, 0.75))} ms",
                0.6,
            ),
            f'<line x1="{mid:.1f}" x2="{mid:.1f}" y1="{y}" y2="{y + 20}" stroke="#1c2430" stroke-width="2"/>',
            _text(_LEFT + most * scale + 12, y + 15, f"{number(percentile(steps, 0.5))} ms"),
        ]
    rows.append(
        _text(
            _LEFT,
            len(found) * _ROW + 18,
            "milliseconds from 0; line 1 % to 99 %, box 25 % to 75 %, mark the median",
            kind="muted",
        )
    )
    yield from _svg(rows, len(found) * _ROW + 26, "distribution of step times")


def _memory(report: Report) -> Iterator[str]:
    found = []
    for variant in report.variants:
        peaks: dict[str, int] = {}
        for run in variant.runs:
            for one in run.memory:
                peaks[one.device] = max(peaks.get(one.device, 0), _used(one))
        found += [(variant.name, device, size) for device, size in peaks.items() if size]
    most = max((size for _, _, size in found), default=0)
    if not most:
        return
    scale = (_WIDTH - _LEFT - 240) / most
    rows = []
    for i, (name, device, size) in enumerate(found):
        y = i * _ROW + 4
        shown = f"{number(size / 2**30)} GiB"
        rows += [_text(0, y + 15, name), _text(_LEFT + 95, y + 15, device, "end", "muted")]
        rows += [
            _bar(_LEFT + 105, y, size * scale, _colour(name), shown),
            _text(_LEFT + 115 + size * scale, y + 15, shown),
        ]
    yield from _svg(rows, len(found) * _ROW + 4, "peak memory of each device")


def _used(one: DeviceMemory) -> int:
    return one.used or one.reserved or one.allocated or 0


def _communication(report: Report) -> Iterator[str]:
    """Computation, exposed communication and the rest of a profiled step."""
    found = [(v.name, v.communication) for v in report.variants if v.communication is not None]
    most = max((c.step_ms for _, c in found), default=0.0)
    rows = []
    for i, (name, one) in enumerate(found):
        y, x = i * _ROW + 4, float(_LEFT)
        scale = (_WIDTH - _LEFT - 140) / most if most else 0
        rows.append(_text(0, y + 15, name))
        rest = max(0.0, one.step_ms - one.compute_ms - one.exposed_ms)
        for what, size, colour in (
            ("computation, with what is hidden behind it", one.compute_ms, "#2b6cb0"),
            ("exposed communication", one.exposed_ms, "#d9822b"),
            ("neither", rest, "#cbd2d9"),
        ):
            if size:
                rows.append(_bar(x, y, size * scale, colour, f"{what}: {number(size)} ms"))
            x += size * scale
        rows.append(_text(_LEFT + most * scale + 12, y + 15, f"{number(one.step_ms)} ms"))
    if rows:
        y = len(found) * _ROW + 8
        for j, (what, colour) in enumerate(
            (("computation", "#2b6cb0"), ("exposed communication", "#d9822b"), ("neither", "#cbd2d9"))
        ):
            rows += [
                f'<rect x="{_LEFT + j * 190}" y="{y}" width="12" height="12" fill="{colour}"/>',
                _text(_LEFT + 18 + j * 190, y + 11, what),
            ]
    yield from _svg(rows, len(found) * _ROW + 28, "parts of a profiled step")
