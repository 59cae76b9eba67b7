"""`mgmigrate bench compare A.json B.json`: what changed between two reports.

In: two reports.  Out: per variant the ratio of throughputs with its interval, what differs in the environment and the work, and
a verdict only where it is deserved.  Imports neither torch nor a plotting library.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.figures import Comparison, compare_variants, summarise
from benchmarks.honesty import find_warnings
from benchmarks.results import Report, Variant, Work
from benchmarks.show import table
from benchmarks.tables import interval, number


@dataclass(frozen=True, slots=True)
class Row:
    """One variant in both reports; `comparison` is B against A."""

    name: str
    before: Variant
    after: Variant
    comparison: Comparison | None


@dataclass(frozen=True, slots=True)
class Difference:
    """A and B side by side."""

    rows: tuple[Row, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    environment: tuple[str, ...]  # fields that differ
    work: tuple[str, ...]
    codes: tuple[str, ...]  # warnings of B that A does not have, and the other way round


def compare_reports(before: Report, after: Report) -> Difference:
    names = [v.name for v in before.variants if after.variant(v.name) is not None]
    rows = []
    cpus = min((e.cpus for e in (before.environment, after.environment) if e.cpus), default=None)
    for name in names:
        a, b = before.variant(name), after.variant(name)
        assert a is not None and b is not None
        rows.append(Row(name, a, b, compare_variants(b, a, cpus)))
    return Difference(
        rows=tuple(rows),
        only_before=tuple(v.name for v in before.variants if v.name not in names),
        only_after=tuple(v.name for v in after.variants if v.name not in names),
        environment=tuple(_environment(before, after)),
        work=tuple(text for row in rows for text in _work(row.name, row.before.work, row.after.work)),
        codes=tuple(_codes(before, after)),
    )


def _environment(before: Report, after: Report) -> Iterator[str]:
    for name in ("program", "device", "source"):
        if getattr(before, name) != getattr(after, name):
            yield f"{name}: {getattr(before, name)} → {getattr(after, name)}"
    for one in dataclasses.fields(before.environment):
        old, new = getattr(before.environment, one.name), getattr(after.environment, one.name)
        if old != new and one.name != "load":
            yield f"{one.name}: {_shown(old)} → {_shown(new)}"


def _shown(value: object) -> str:
    return "not known" if value in (None, ()) else ", ".join(value) if isinstance(value, tuple) else str(value)


def _work(name: str, before: Work | None, after: Work | None) -> Iterator[str]:
    if before is None or after is None:
        return
    for one in dataclasses.fields(before):
        old, new = getattr(before, one.name), getattr(after, one.name)
        if one.name != "samples_counted" and None not in (old, new) and old != new:
            yield f"{name}, {one.name.replace('_', ' ')}: {old} → {new}"


def _codes(before: Report, after: Report) -> Iterator[str]:
    old = {(w.code, w.variant) for w in find_warnings(before)}
    new = {(w.code, w.variant) for w in find_warnings(after)}
    for sign, found in (("gone", old - new), ("new", new - old)):
        for code, variant in sorted(found, key=str):
            yield f"{sign}: {code}{f' ({variant})' if variant else ''}"


def to_text(difference: Difference, before: str, after: str) -> str:
    lines = [f"A: {before}", f"B: {after}", ""]
    rows = []
    for row in difference.rows:
        a, b, c = summarise(row.before), summarise(row.after), row.comparison
        if a is None or b is None or c is None:
            rows.append([row.name, row.before.status, row.after.status, "–", "–", "no verdict"])
            continue
        both = (a.samples_per_s, b.samples_per_s) if c.basis == "samples/s" else (a.steps_per_s, b.steps_per_s)
        shown = [f"{number(value)} {c.basis}" for value in both]
        rows.append([row.name, *shown, f"{c.speedup:.2f}×", interval(c), c.verdict])
    lines += table(["variant", "A", "B", "B / A", "95 % interval", "verdict of B"], rows)
    lines += [
        f"  {row.name}: no verdict, {row.comparison.why}"
        for row in difference.rows
        if row.comparison and row.comparison.verdict == "no verdict"
    ]
    for title, items in (
        ("Only in A", difference.only_before),
        ("Only in B", difference.only_after),
        ("The machines or programs differ", difference.environment),
        ("The work differs", difference.work),
        ("Warnings", difference.codes),
    ):
        if items:
            lines += ["", title, *(f"  {item}" for item in items)]
    return "\n".join(lines) + "\n"


def to_json(difference: Difference) -> str:
    document = {
        "schema_version": 1,
        "kind": "mgmigrate-bench-compare",
        "variants": [
            {"name": row.name, "comparison": dataclasses.asdict(row.comparison) if row.comparison else None}
            for row in difference.rows
        ],
        **{k: v for k, v in dataclasses.asdict(difference).items() if k != "rows"},
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
