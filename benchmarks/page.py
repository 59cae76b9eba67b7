"""A report as one HTML page with plots: opens without a network, asks for nothing, runs no script.

In: a report.  Out: HTML with inline SVG, readable without any other text: what came out in sentences, warnings, plots, tables, what
the columns mean, and how it was measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from benchmarks.honesty import CODES, find_warnings
from benchmarks.plots import communication_plot, memory_plot, step_plot, throughput_plot
from benchmarks.results import Report
from benchmarks.sentences import GLOSSARY, conclusions, forms, header, notes
from benchmarks.tables import sections

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --line: #dde2e8; --page: #fff; --card: #f6f8fa; --warn: #fff6ea;
  --edge: #d9822b; --code: #8a3b00; --single: #8d99a6; --dp: #d9822b; --ddp: #2b6cb0; --accelerate: #2f855a; --other: #6b46c1;
  --work: #2b6cb0; --talk: #d9822b; --rest: #cbd2d9; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #9aa6b4; --line: #313a46; --page: #14181e; --card: #1c222b;
  --warn: #2a2117; --code: #f0a35e; --single: #75828f; --ddp: #5a9be0; --accelerate: #4fae7f; --work: #5a9be0; --rest: #4a5563; } }
body { font: 15px/1.55 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto 4rem; padding: 0 1.2rem; color: var(--ink);
  background: var(--page); }
h1 { font-size: 1.55rem; margin: 0 0 .2rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .3rem; }
p { margin: .3rem 0; } .note { color: var(--soft); } .lead { font-size: 1.05rem; margin-bottom: 1rem; overflow-wrap: anywhere; }
.card { background: var(--card); border-radius: 8px; padding: .7rem 1.1rem; } .card ul, .warnings ul { margin: 0; padding-left: 1.1rem; }
.card li, .warnings li { margin: .35rem 0; overflow-wrap: anywhere; }
.warnings { background: var(--warn); border-left: 4px solid var(--edge); border-radius: 0 8px 8px 0; padding: .6rem 1.1rem; }
.code { font-weight: 700; color: var(--code); } .meaning { color: var(--soft); }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; margin: .6rem 0; }
th, td { text-align: right; padding: .35rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child, .words td, td[colspan] { text-align: left; } th { font-weight: 600; color: var(--soft); vertical-align: bottom; white-space: normal; }
.words th { text-align: left; } dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1.2rem; margin: .6rem 0; }
dt { font-weight: 600; } dd { margin: 0; overflow-wrap: anywhere; } details { margin-top: 2rem; } summary { cursor: pointer; font-weight: 600; }
svg { width: 100%; min-width: 40rem; height: auto; display: block; } svg text { font: 13px system-ui, sans-serif; fill: var(--ink); } svg .muted { fill: var(--soft); }
svg .axis { stroke: var(--line); } svg .mark { stroke: var(--ink); } svg .dot { fill: var(--ink); }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .5rem; } }
"""
_PLOTS = {"Throughput": throughput_plot, "Memory and waiting": memory_plot, "Communication": communication_plot}
_WORDS = {"Ratios"}  # tables whose cells are words


def to_html(report: Report) -> str:
    first, *others = header(report)
    title = f"Benchmark of {report.program}"
    body = [f"<h1>{escape(title)}</h1>", f'<p class="lead">{escape(first.partition(": ")[2])}</p>']
    body += _list("card", [escape(line) for line in conclusions(report)], "Result")
    body += _warnings(report)
    body += ["<h2>Forms</h2>", *_pairs(forms(report))]
    for one in sections(report):
        body += [f"<h2>{one.title}</h2>", f'<p class="note">{escape(one.about)}</p>']
        if one.title in _PLOTS:
            body += _PLOTS[one.title](report)
        body += _table(one.head, one.rows, one.title in _WORDS)
        if one.title == "Throughput":
            drawn = list(step_plot(report))
            body += (
                ["<h2>Step times</h2>", '<p class="note">from the fastest steps to the slowest</p>', *drawn]
                if drawn
                else []
            )
    body += ["<h2>How it was measured</h2>"]
    body += [f'<p class="note">{escape(line)}</p>' for line in [*others, *notes(report)]]
    body += ["<details><summary>What the columns mean</summary>", *_pairs(iter(GLOSSARY)), "</details>"]
    text = "\n".join(body)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n{text}\n</body></html>\n"
    )


def _warnings(report: Report) -> list[str]:
    """One entry for each code, with what it means once and each place below."""
    by_code: dict[str, list[str]] = {}
    for one in find_warnings(report):
        place = f"<b>{escape(one.variant)}</b>: " if one.variant else ""
        by_code.setdefault(one.code, []).append(f"{place}{escape(one.message)}")
    rows = [
        f'<span class="code">{code}</span> <span class="meaning">{escape(CODES[code])}</span><br/>' + "<br/>".join(told)
        for code, told in by_code.items()
    ]
    return _list("warnings", rows, "Before you believe it")


def _list(kind: str, rows: Sequence[str], title: str) -> list[str]:
    if not rows:
        return []
    return [f"<h2>{title}</h2>", f'<div class="{kind}"><ul>', *(f"<li>{row}</li>" for row in rows), "</ul></div>"]


def _pairs(pairs: Iterator[tuple[str, str]]) -> list[str]:
    return ["<dl>", *(f"<dt>{escape(name)}</dt><dd>{escape(what)}</dd>" for name, what in pairs), "</dl>"]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], words: bool) -> Iterator[str]:
    kind = ' class="words"' if words else ""
    yield f'<div class="wide"><table{kind}><tr>' + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"
    for row in rows:
        filled = max((i + 1 for i, cell in enumerate(row) if cell), default=1)
        span = f' colspan="{len(row) - filled + 1}"' if filled < len(row) else ""  # the last words have the rest
        cells = [f"<td>{escape(cell)}</td>" for cell in row[: filled - 1]]
        yield "<tr>" + "".join(cells) + f"<td{span}>{escape(row[filled - 1])}</td></tr>"
    yield "</table></div>"
