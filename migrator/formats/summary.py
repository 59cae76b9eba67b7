"""What a person must look at after a conversion: a summary of one program, or a line for several.

In: conversions.  Out: text.  Nothing is printed here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from codemods.base import Diagnostic
from migrator.convert.conversion import Conversion
from migrator.formats.diff import rule_names


def summary(conversion: Conversion, named: bool = False) -> str:
    """What a person must look at, then what was converted, then how to start it."""
    questions = [d for d in conversion.diagnostics if d.level == "question"]
    notes = [d for d in conversion.diagnostics if d.level == "note"]
    fixes = [d for d in conversion.diagnostics if d.level == "fix"]
    names = rule_names()
    lines: list[str] = [f"== {conversion.entry}"] if named else []
    lines += question_rows(conversion).splitlines()
    if fixes:
        counts = Counter(d.rule for d in fixes)
        lines.append(f"converted {_count(len(fixes), 'place')} in {_count(len(conversion.changes), 'file')}:")
        lines += [f"  {rule} {names.get(rule, '')} ×{count}" for rule, count in sorted(counts.items())]
    if conversion.way and fixes:
        lines.append(f"how the batch is shared: {conversion.way} — {conversion.reason}")
    if notes:
        lines += ["worth knowing:"] if fixes or questions else []
        lines += [_row(d, names) for d in notes]
    if conversion.launch and conversion.changes:
        lines += ["start it with:", f"  {conversion.launch}"]
    return "\n".join(lines) + "\n"


def question_rows(conversion: Conversion) -> str:
    """What a person must decide; empty when there is nothing."""
    questions = [d for d in conversion.diagnostics if d.level == "question"]
    if not questions:
        return ""
    rows = [_row(d, rule_names()) for d in questions]
    return "\n".join([f"{_count(len(questions), 'place')} for you to decide:", *rows]) + "\n"


def headline(conversions: Sequence[Conversion], failed: int) -> str:
    """One line for several programs."""
    ask = sum(1 for c in conversions if c.questions)
    plain = sum(1 for c in conversions if c.changes and not c.questions)
    nothing = sum(1 for c in conversions if not c.changes and not c.questions)
    parts = [(plain, "converted"), (ask, "with something for you to decide"), (nothing, "with nothing to do")]
    told = [f"{count} {what}" for count, what in [*parts, (failed, "not readable")] if count]
    return f"{_count(len(conversions) + failed, 'program')}: {', '.join(told)}\n"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _row(diagnostic: Diagnostic, names: dict[str, str]) -> str:
    return (
        f"  {diagnostic.at.path}:{diagnostic.at.line}: {diagnostic.rule} {names.get(diagnostic.rule, '')}".rstrip()
        + f": {diagnostic.message}"
    )
