"""A report as text for a terminal, and as Markdown for a pull request.

In: a report.  Out: text.  Never imports torch.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from benchmarks.honesty import find_warnings
from benchmarks.results import Report
from benchmarks.sentences import conclusions, forms, header, notes
from benchmarks.tables import sections

WIDTH = 118


def to_text(report: Report) -> str:
    lines = [*_wrapped(header(report)), ""]
    told = list(conclusions(report))
    if told:
        lines += ["Result", *_wrapped(told, "  ", "    "), ""]
    for one in sections(report):
        lines += [f"{one.title} ({one.about})", *table(one.head, one.rows), ""]
    warnings = find_warnings(report)
    if warnings:
        shown = (f"{w.code}{f' {w.variant}' if w.variant else ''}: {w.message}" for w in warnings)
        lines += ["Warnings", *_wrapped(shown, "  ", "    "), ""]
    lines += ["Forms", *_wrapped((f"{name}: {what}" for name, what in forms(report)), "  ", "    "), ""]
    lines += _wrapped(notes(report), "", "  ")
    return "\n".join(lines).rstrip("\n") + "\n"


def _wrapped(lines: Iterator[str] | Sequence[str], first: str = "", others: str = "  ") -> list[str]:
    wrapper = textwrap.TextWrapper(
        WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False, break_long_words=False
    )
    return [part for line in lines for part in wrapper.wrap(line)]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns two spaces apart; a cell that has the rest of its row to itself does not widen its column."""
    widths = [len(cell) for cell in head]
    for row in rows:
        for i, cell in enumerate(row):
            if any(row[i + 1 :]) or i == len(head) - 1:
                widths[i] = max(widths[i], len(cell))
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in [head, *rows]]


# -------------------------------------------------------------------- markdown
def to_markdown(report: Report) -> str:
    first, *others = header(report)
    lines = [f"### Benchmark of `{report.program}`", "", _cell(first), ""]
    lines += [f"- {_cell(line)}" for line in conclusions(report)]
    warnings = find_warnings(report)
    if warnings:
        lines += ["", "**Warnings**", ""]
        lines += [f"- `{w.code}`{' ' + w.variant if w.variant else ''}: {_cell(w.message)}" for w in warnings]
    for one in sections(report):
        lines += ["", f"**{one.title}** ({one.about})", "", *_markdown(one.head, one.rows)]
    lines += ["", "<details><summary>How it was measured</summary>", ""]
    lines += [f"- `{name}`: {_cell(what)}" for name, what in forms(report)]
    lines += [f"- {_cell(line)}" for line in [*others, *notes(report)]]
    return "\n".join([*lines, "", "</details>"]) + "\n"


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(map(_cell, row)) + " |" for row in [head, ["---"] * len(head), *rows]]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
