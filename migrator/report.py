"""Show a conversion: a diff whose hunks name their rules, a summary, and JSON.

In: a `Conversion`.  Out: text.  Nothing is printed here.  The diff is what `git apply` takes: what stands behind the second
`@@` of a hunk header is for people.
"""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codemods import load_rules
from codemods.base import Diagnostic
from migrator.convert import Conversion, FileChange

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Hunk:
    """One hunk: 1-based starts, lengths, its lines with their marks, and the labels (rule id, reason) of its edits."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    lines: tuple[str, ...]
    labels: tuple[tuple[str, str], ...]

    @property
    def header(self) -> str:
        rules = rule_names()
        reasons: dict[str, list[str]] = {}
        for rule, reason in self.labels:
            reasons.setdefault(rule, []).append(reason)
        told = "; ".join(f"{rule} {rules.get(rule, '')}: {', '.join(texts)}" for rule, texts in reasons.items())
        return f"@@ -{_range(self.old_start, self.old_lines)} +{_range(self.new_start, self.new_lines)} @@ {told}"


def rule_names() -> dict[str, str]:
    return {rule.id: rule.name for rule in load_rules()}


def _range(start: int, length: int) -> str:
    return f"{start if length else start - 1},{length}" if length != 1 else str(start)


def hunks(change: FileChange, context: int = 3) -> Iterator[Hunk]:
    """The hunks of a change with the rules behind them."""
    old = _lines(change.before or "")
    new = _lines(change.after)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for group in matcher.get_grouped_opcodes(context):
        lines: list[str] = []
        labels: dict[tuple[str, str], None] = {}
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [" " + line for line in old[i1:i2]]
                continue
            lines += ["-" + line for line in old[i1:i2]] + ["+" + line for line in new[j1:j2]]
            for number in range(i1 + 1, i2 + 1):
                labels |= dict.fromkeys(sorted(change.labels_before.get(number, ())))
            for number in range(j1 + 1, j2 + 1):
                labels |= dict.fromkeys(sorted(change.labels_after.get(number, ())))
        yield Hunk(
            group[0][1] + 1,
            group[-1][2] - group[0][1],
            group[0][3] + 1,
            group[-1][4] - group[0][3],
            tuple(lines),
            tuple(labels),
        )


def _lines(text: str) -> list[str]:
    import io

    return list(io.StringIO(text, newline=""))


def diff_text(conversion: Conversion, context: int = 3) -> str:
    """The whole diff of a conversion."""
    parts = []
    for change in conversion.changes:
        path = _diff_path(change.path)
        parts.append(f"diff --git a/{path} b/{path}\n")
        if change.before is None:
            parts.append("new file mode 100644\n--- /dev/null\n")
        else:
            parts.append(f"--- a/{path}\n")
        parts.append(f"+++ b/{path}\n")
        for hunk in hunks(change, context):
            parts.append(hunk.header.rstrip() + "\n")
            for line in hunk.lines:
                parts.append(line if line.endswith(("\n", "\r")) else line + "\n\\ No newline at end of file\n")
    return "".join(parts)


def _diff_path(path: str) -> str:
    """A path as git writes it: relative, with forward slashes."""
    pure = Path(path)
    if pure.is_absolute():
        try:
            pure = pure.relative_to(Path.cwd())
        except ValueError:
            pure = Path(*pure.parts[1:])
    return pure.as_posix()


def summary(conversion: Conversion) -> str:
    """What a person must look at, then what was converted, then how to start it."""
    questions = [d for d in conversion.diagnostics if d.level == "question"]
    notes = [d for d in conversion.diagnostics if d.level == "note"]
    fixes = [d for d in conversion.diagnostics if d.level == "fix"]
    names = rule_names()
    lines: list[str] = []
    if questions:
        lines.append(f"{_count(len(questions), 'place')} for you to decide:")
        lines += [_row(d, names) for d in questions]
    if fixes:
        files = sum(1 for c in conversion.changes)
        counts = Counter(d.rule for d in fixes)
        lines.append(f"converted {_count(len(fixes), 'place')} in {_count(files, 'file')}:")
        lines += [f"  {rule} {names.get(rule, '')} ×{count}" for rule, count in sorted(counts.items())]
    if conversion.way and fixes:
        lines.append(f"how the batch is shared: {conversion.way} — {conversion.reason}")
    if notes:
        lines.append("worth knowing:" if fixes or questions else "")
        lines += [_row(d, names) for d in notes]
    if conversion.launch and conversion.changes:
        lines += ["start it with:", f"  {conversion.launch}"]
    return "\n".join(line for line in lines if line) + "\n"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _row(diagnostic: Diagnostic, names: dict[str, str]) -> str:
    return (
        f"  {diagnostic.at.path}:{diagnostic.at.line}: {diagnostic.rule} {names.get(diagnostic.rule, '')}".rstrip()
        + f": {diagnostic.message}"
    )


def to_json(conversions: list[Conversion]) -> str:
    """The documented JSON form (docs/json.md)."""
    document = {"version": SCHEMA_VERSION, "programs": [_program(c) for c in conversions]}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _program(conversion: Conversion) -> dict[str, Any]:
    return {
        "entry": conversion.entry,
        "outcome": conversion.outcome,
        "exit_code": conversion.exit_code,
        "sharing": {"way": conversion.way, "reason": conversion.reason},
        "launch": conversion.launch,
        "diagnostics": [
            {
                "rule": d.rule,
                "level": d.level,
                "applicability": d.applicability,
                "path": d.at.path,
                "line": d.at.line,
                "message": d.message,
                "edits": [
                    {"kind": type(e).__name__, "line": e.at.line, "text": getattr(e, "text", getattr(e, "name", ""))}
                    for e in d.fix.edits
                ]
                if d.fix
                else [],
            }
            for d in conversion.diagnostics
        ],
        "files": [
            {
                "path": change.path,
                "new": change.before is None,
                "hunks": [
                    {
                        "old_start": h.old_start,
                        "new_start": h.new_start,
                        "lines": list(h.lines),
                        "rules": [{"id": r, "reason": why} for r, why in h.labels],
                    }
                    for h in hunks(change)
                ],
            }
            for change in conversion.changes
        ],
    }
