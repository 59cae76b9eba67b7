"""The diff of a conversion, whose hunks name their rules.

In: a `Conversion`.  Out: text.  Nothing is printed here.  The diff is what `git apply` takes: what stands behind the second
`@@` of a hunk header is for people.
"""

from __future__ import annotations

import difflib
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from codemods.registry import load_rules
from migrator.convert.conversion import Conversion, FileChange
from migrator.notebooks.cells import by_cell

_COLOURS = {"file": "1", "+": "32", "-": "31"}


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


@lru_cache(maxsize=1)
def rule_names() -> dict[str, str]:
    return {rule.id: rule.name for rule in load_rules()}


def _range(start: int, length: int) -> str:
    return f"{start if length else start - 1},{length}" if length != 1 else str(start)


def hunks(change: FileChange, context: int = 3) -> Iterator[Hunk]:
    """The hunks of a change with the rules behind them."""
    mark = "\ufeff" if change.source is not None and change.source.bom else ""
    old, old_numbers = numbered_lines(mark + change.before if change.before else "")
    new, new_numbers = numbered_lines(mark + change.after if change.after else "")
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for group in matcher.get_grouped_opcodes(context):
        lines: list[str] = []
        labels: dict[tuple[str, str], None] = {}
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [" " + line for line in old[i1:i2]]
                continue
            lines += ["-" + line for line in old[i1:i2]] + ["+" + line for line in new[j1:j2]]
            for number in range(old_numbers[i1], old_numbers[i2]):
                labels |= dict.fromkeys(sorted(one[:2] for one in change.labels_before.get(number, ())))
            for number in range(new_numbers[j1], new_numbers[j2]):
                labels |= dict.fromkeys(sorted(one[:2] for one in change.labels_after.get(number, ())))
        yield Hunk(
            group[0][1] + 1,
            group[-1][2] - group[0][1],
            group[0][3] + 1,
            group[-1][4] - group[0][3],
            tuple(lines),
            tuple(labels),
        )


def numbered_lines(text: str) -> tuple[list[str], list[int]]:
    """Lines as git counts them (by line feed), and for each the number that Python gives it (a bare return counts too)."""
    lines = list(io.StringIO(text, newline="\n"))
    numbers = [1]
    for line in lines:
        numbers.append(numbers[-1] + line.count("\n") + line.count("\r") - line.count("\r\n"))
    if lines and not lines[-1].endswith(("\n", "\r")):
        numbers[-1] += 1
    return lines, numbers


def diff_parts(change: FileChange, context: int = 3) -> Iterator[tuple[str, str]]:
    """The diff of a file, line by line, with what each line is: file, hunk, +, - or a space."""
    for part in by_cell(change):
        yield from _part_of_diff(part, context, part is change)


def _part_of_diff(change: FileChange, context: int, whole: bool) -> Iterator[tuple[str, str]]:
    """The diff of a file, or of a cell, which `git apply` is not to take for a file."""
    path = _diff_path(change.path)
    old, new = _quoted(f"a/{path}"), _quoted(f"b/{path}")
    if whole:
        yield "file", f"diff --git {old} {new}\n"
    if change.before is None:
        yield "file", "new file mode 100644\n"
    yield "file", f"--- {_ended(old) if change.before is not None else '/dev/null'}\n"
    yield "file", f"+++ {_ended(new)}\n"
    for hunk in hunks(change, context):
        yield "hunk", hunk.header.rstrip() + "\n"
        for line in hunk.lines:
            yield line[0], line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"


def diff_text(conversion: Conversion, context: int = 3) -> str:
    """The whole diff of a conversion."""
    return "".join(text for change in conversion.changes for _, text in diff_parts(change, context))


def diff_bytes(change: FileChange, context: int = 3) -> bytes:
    """The diff of a file as `git apply` wants it: content in the file's own encoding."""
    own = change.source.encoding if change.source is not None else "utf-8"
    parts = diff_parts(change, context)
    return b"".join(
        text.encode("utf-8" if kind in ("file", "hunk") else own, "backslashreplace") for kind, text in parts
    )


def diff_coloured(change: FileChange, context: int = 3) -> str:
    """The diff of a file for a terminal."""
    return "".join(painted(kind, text) for kind, text in diff_parts(change, context))


def painted(kind: str, text: str) -> str:
    """A line of a diff in the colours of its kind."""
    body = text.rstrip("\r\n")
    if kind == "hunk":
        place, _, told = body.partition(" @@")
        body = f"\033[36m{place} @@\033[0;33m{told}\033[0m"
    elif kind in _COLOURS:
        body = f"\033[{_COLOURS[kind]}m{body}\033[0m"
    return body + "\n"


def _diff_path(path: str) -> str:
    """A path as git writes it: relative to the current folder where it lies below it, with forward slashes."""
    relative = os.path.relpath(path)
    if relative.startswith(".."):
        relative = os.path.abspath(path).lstrip("/\\")
    return Path(relative).as_posix()


def _quoted(name: str) -> str:
    """A name as git quotes it."""
    if not re.search(r'["\\\x00-\x1f\x7f]', name):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda m: f"\\{ord(m[0]):03o}", escaped) + '"'


def _ended(name: str) -> str:
    """A name with white space in it ends with a tab, so that readers know where it ends."""
    return f"{name}\t" if " " in name and not name.startswith('"') else name
