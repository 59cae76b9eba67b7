"""Comments that refuse a fix: `# mgmigrate: ignore[MG501]` on its line.

In: a program and the diagnostics of its rules.  Out: the same without what is refused and what depends on it, and a note for
each comment that refuses nothing.
"""

from __future__ import annotations

import re

from codemods.base import Diagnostic
from migrator.facts.program import Program
from migrator.facts.python.syntax import Span

_IGNORE = re.compile(r"#\s*mgmigrate:\s*ignore\[([A-Z0-9, ]+)\]")


def without_suppressed(program: Program, diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """Drop what a `# mgmigrate: ignore[ID]` on its line refuses, with what depends on it, and report those that refuse nothing."""
    refused: dict[tuple[str, int], set[str]] = {}
    for module in program.modules:
        if "mgmigrate" not in module.text:
            continue
        for match in _IGNORE.finditer(module.text):
            line = module.line_at(match.start())
            refused[module.path, line] = {part.strip() for part in match[1].split(",")}
    if not refused:
        return diagnostics
    used: set[tuple[str, int, str]] = set()
    out = []
    for diagnostic in diagnostics:
        at = diagnostic.at
        lines = {at.line, program.module_at(at).line_at(max(at.end - 1, 0)) if at.end else at.line}
        hits = {
            (at.path, line, diagnostic.rule) for line in lines if diagnostic.rule in refused.get((at.path, line), ())
        }
        used |= hits
        if hits:
            out.append(diagnostic)
    kept = list(diagnostics)
    if out:
        from migrator.convert.selection import suppressed

        kept = suppressed(program.entry_module.path, diagnostics, out)
    for (path, number), ids in refused.items():
        for rule in sorted(ids):
            if (path, number, rule) not in used:
                kept.append(
                    Diagnostic(
                        "MG003",
                        Span(path, 0, 0, number),
                        f"this suppression of {rule} suppresses nothing",
                        "note",
                        None,
                        "display-only",
                    )
                )
    return kept
