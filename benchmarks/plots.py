"""Plots of a report as inline SVG: throughput, step times, memory, and where a step goes.

In: a report.  Out: SVG text, one row per form, colours from the page's style.  Needs no plotting library.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from benchmarks.figures import percentile, summarise
from benchmarks.results import DeviceMemory, Report
from benchmarks.tables import number

_WIDTH, _LEFT, _RIGHT, _ROW = 900, 160, 130, 34
_KNOWN = ("single", "dp", "ddp", "accelerate")


def _colour(name: str) -> str:
    kind = name.partition(":")[0]
    return f"var(--{kind if kind in _KNOWN else 'other'})"


def _svg(rows: Sequence[str], height: int, title: str) -> Iterator[str]:
    if rows:
        drawn = f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">{"".join(rows)}</svg>'
        yield f'<div class="wide">{drawn}</div>'


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(text)}</text>'


def _bar(x: float, y: float, width: float, colour: str, tip: str, opacity: float = 1.0) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" height="20" rx="2" style="fill: {colour}; fill-opacity: {opacity}">'
        f"<title>{escape(tip)}</title></rect>"
    )


def axis(most: float, unit: str, height: int, left: float = _LEFT) -> tuple[float, list[str]]:
    """Pixels per unit, and lines at round numbers from 0 to about `most`."""
    room = _WIDTH - left - _RIGHT
    scale = room / most
    power = 10.0 ** (len(str(int(most))) - 1) if most >= 1 else 0.1
    while most / power < 3:
        power /= 2
    while most / power > 6:
        power *= 2
    rows = []
    for i in range(int(most / power) + 1):
        x = left + i * power * scale
        rows.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}"/>')
        rows.append(_text(x, height + 15, f"{i * power:g}", "middle", "muted"))
    rows.append(_text(_WIDTH - _RIGHT + 12, height + 15, unit, "start", "muted"))
    return scale, rows


def throughput_plot(report: Report) -> Iterator[str]:
    """One bar per form; dots are the windows."""
    found = []
    for variant in report.variants:
        figures = summarise(variant)
        if figures is not None and figures.samples_per_s is not None:
            rates = [w.samples / w.seconds for r in variant.runs for w in r.windows if w.samples is not None]
            found.append((variant, figures.samples_per_s, rates))
    if not found:
        return
    height = len(found) * _ROW
    scale, rows = axis(max(max(rates) for _, _, rates in found), "samples/s", height)
    for i, (variant, rate, rates) in enumerate(found):
        y = i * _ROW + 7
        shown = f"{variant.title}: {number(rate)} samples/s"
        rows += [_text(0, y + 15, variant.name), _bar(_LEFT, y, rate * scale, _colour(variant.name), shown, 0.8)]
        rows += [f'<circle class="dot" cx="{_LEFT + r * scale:.1f}" cy="{y + 10}" r="3"/>' for r in rates]
        rows.append(_text(_WIDTH - _RIGHT + 12, y + 15, number(rate)))
    rows.append(_text(_LEFT, height + 34, "bar: all windows together; dots: each window", "start", "muted"))
    yield from _svg(rows, height + 42, "throughput of each form")


def step_plot(report: Report) -> Iterator[str]:
    """Line from 1 % to 99 %, box the middle half, mark the median."""
    found = [(v.name, [ms for r in v.runs for ms in r.step_ms]) for v in report.variants]
    found = [(name, steps) for name, steps in found if steps]
    most = max((percentile(steps, 0.99) for _, steps in found), default=0.0)
    if not most:
        return
    height = len(found) * _ROW
    scale, rows = axis(most, "ms", height)
    for i, (name, steps) in enumerate(found):
        y = i * _ROW + 7
        places = [percentile(steps, share) for share in (0.01, 0.25, 0.5, 0.75, 0.99)]
        low, q1, mid, q3, high = (ms * scale + _LEFT for ms in places)
        tip = f"half of the steps: {number(places[1])} to {number(places[3])} ms"
        rows += [
            _text(0, y + 15, name),
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y + 10}" y2="{y + 10}" style="stroke: {_colour(name)}; stroke-width: 2"/>',
            _bar(q1, y, q3 - q1, _colour(name), tip, 0.7),
            f'<line class="mark" x1="{mid:.1f}" x2="{mid:.1f}" y1="{y}" y2="{y + 20}" stroke-width="2"/>',
            _text(_WIDTH - _RIGHT + 12, y + 15, f"{number(places[2])} median"),
        ]
    told = "line: 1 % to 99 % of the steps; box: the middle half; mark: the median"
    rows.append(_text(_LEFT, height + 34, told, kind="muted"))
    yield from _svg(rows, height + 42, "distribution of step times")


def memory_plot(report: Report) -> Iterator[str]:
    """One bar per form and device; the outline is what the device has."""
    found: list[tuple[str, str, int, int | None]] = []
    for variant in report.variants:
        peaks: dict[str, tuple[int, int | None]] = {}
        for run in variant.runs:
            for one in run.memory:
                peaks[one.device] = (max(peaks.get(one.device, (0, None))[0], _used(one)), one.total)
        found += [(variant.name, device, size, total) for device, (size, total) in peaks.items() if size]
    if not found:
        return
    height, left = len(found) * _ROW, _LEFT + 90
    scale, rows = axis(max(total or size for _, _, size, total in found) / 2**30, "GiB", height, left)
    for i, (name, device, size, total) in enumerate(found):
        y, shown = i * _ROW + 7, number(size / 2**30)
        if not i or found[i - 1][0] != name:
            rows.append(_text(0, y + 15, name))
        rows.append(_text(left - 10, y + 15, device, "end", "muted"))
        if total:
            width = total / 2**30 * scale
            rows.append(f'<rect class="axis" x="{left}" y="{y}" width="{width:.1f}" height="20" rx="2" fill="none"/>')
            shown += f" of {number(total / 2**30)}"
        rows += [_bar(left, y, size / 2**30 * scale, _colour(name), f"{name}, {device}: {shown} GiB", 0.8)]
        rows.append(_text(_WIDTH - _RIGHT + 12, y + 15, shown))
    yield from _svg(rows, height + 22, "peak memory of each device")


def _used(one: DeviceMemory) -> int:
    return one.used or one.reserved or one.allocated or 0


def communication_plot(report: Report) -> Iterator[str]:
    """Computation, exposed communication and the rest of a profiled step."""
    found = [(v.name, v.communication) for v in report.variants if v.communication is not None]
    if not found:
        return
    height = len(found) * _ROW
    scale, rows = axis(max(c.step_ms for _, c in found), "ms", height)
    for i, (name, one) in enumerate(found):
        y, x = i * _ROW + 7, float(_LEFT)
        rows.append(_text(0, y + 15, name))
        alone = max(0.0, one.compute_ms - one.overlapped_ms)
        rest = max(0.0, one.step_ms - one.compute_ms - one.exposed_ms)
        parts = (
            ("computation alone", alone, "var(--work)", 1.0),
            ("computation with communication behind it", one.overlapped_ms, "var(--work)", 0.55),
            ("exposed communication", one.exposed_ms, "var(--talk)", 1.0),
            ("neither", rest, "var(--rest)", 1.0),
        )
        for what, size, colour, opacity in parts:
            if size:
                rows.append(_bar(x, y, size * scale, colour, f"{what}: {number(size)} ms", opacity))
            x += size * scale
        rows.append(_text(_WIDTH - _RIGHT + 12, y + 15, f"{number(one.exposed_pct)} % exposed"))
    x = 0.0
    for what, _, colour, opacity in parts:
        rows.append(
            f'<rect x="{x}" y="{height + 26}" width="12" height="12" rx="2" style="fill: {colour}; fill-opacity: {opacity}"/>'
        )
        rows.append(_text(x + 18, height + 36, what, kind="muted"))
        x += 40 + 7.2 * len(what)
    yield from _svg(rows, height + 44, "parts of a profiled step")
