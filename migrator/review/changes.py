"""What a conversion changes, fix by fix: the hunks of each, the helper functions that they call, and whole files.

In: a `Conversion`.  Out: views with markup for the page.  A row of the diff belongs to every fix that made it; top-level imports
and helper functions, which fixes share, are shown on their own, so that a fix shows what is its own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from markupsafe import Markup

from codemods.base import Diagnostic
from migrator.convert.conversion import Conversion
from migrator.convert.helpers import with_needs
from migrator.convert.selection import fix_ids
from migrator.edits import AddHelper, AddImport, Label
from migrator.notebooks.cells import by_cell
from migrator.review.differing import FileDiff, Marks, Row, compare
from migrator.review.painting import Token, line_html, paint

_DEFINITION = re.compile(r"(?:async def|def|class)\s+(\w+)|(\w+)\s*=")


@dataclass(frozen=True, slots=True)
class Hunk:
    """Rows of one file: 1-based first and last line of the new text (of the old one where all is gone)."""

    path: str
    first: int
    last: int
    code: Markup


@dataclass(slots=True)
class Fix:
    """A fix with what it changes; `imports` are its import lines where it changes nothing else, `helpers` what it calls."""

    id: str
    diagnostic: Diagnostic
    hunks: list[Hunk] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    helpers: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class HelperView:
    """A helper function or class that the conversion puts into the program, and the fixes that call it."""

    name: str
    told: str
    hunk: Hunk
    users: tuple[Fix, ...]


@dataclass(frozen=True, slots=True)
class FileView:
    """A whole file's diff."""

    path: str
    is_new: bool
    added: int
    removed: int
    hunks: tuple[Hunk, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """All views of a conversion."""

    fixes: tuple[Fix, ...]
    helpers: tuple[HelperView, ...]
    imports: tuple[Hunk, ...]
    files: tuple[FileView, ...]


@dataclass(frozen=True, slots=True)
class _File:
    """A file's diff with its painted lines, the rows of helpers by name, and the other changed rows by the fix behind them.

    `lines` keeps the markup of lines that were made: a row stands in the hunks of several fixes.
    """

    diff: FileDiff
    old: dict[int, list[Token]]
    new: list[list[Token]]
    helpers: dict[str, tuple[int, int]]
    import_rows: list[int]
    rows_of: dict[str, list[int]]
    lines: dict[tuple[int, str, bool], str] = field(default_factory=dict)


def read_changes(conversion: Conversion) -> Changes:
    """The views of a conversion."""
    fixes = {name: Fix(name, diagnostic) for name, diagnostic in fix_ids(conversion).items()}
    of_label: dict[object, set[str]] = {}
    for name, diagnostic in fix_ids(conversion).items():
        if diagnostic.fix is not None:
            label = (diagnostic.rule, diagnostic.fix.reason, diagnostic.at)
            of_label.setdefault(_key(label), set()).add(name)
    wanted = {e.name for f in fixes.values() for e in _edits(f) if isinstance(e, AddHelper)}
    names = frozenset(helper.name for helper in with_needs(wanted))
    parts = [part for change in conversion.changes for part in by_cell(change)]
    files = [_read_file(compare(part), of_label, names) for part in parts]
    for fix in fixes.values():
        for file in (file for file in files if fix.id in file.rows_of):
            fix.hunks += _hunks(file, file.rows_of[fix.id])
        if not fix.hunks:
            fix.imports = list(dict.fromkeys(e.text for e in _edits(fix) if isinstance(e, AddImport)))
        fix.helpers = list(dict.fromkeys(e.name for e in _edits(fix) if isinstance(e, AddHelper)))
    return Changes(
        tuple(fixes.values()),
        tuple(helper for file in files for helper in _helpers(file, fixes.values())),
        tuple(hunk for file in files for hunk in _hunks(file, file.import_rows)),
        tuple(
            FileView(
                file.diff.path,
                file.diff.is_new,
                file.diff.added,
                file.diff.removed,
                tuple(_hunks(file, [n for n, row in enumerate(file.diff.rows) if row.changed])),
            )
            for file in files
        ),
    )


def _key(label: Label) -> object:
    """What tells labels of different fixes apart, wherever their places are told: a notebook's cells are one program."""
    rule, reason, at = label
    return rule, reason, at and (at.path.partition(":cell ")[0], at.start, at.end)


def _edits(fix: Fix) -> tuple[object, ...]:
    return fix.diagnostic.fix.edits if fix.diagnostic.fix is not None else ()


def _read_file(diff: FileDiff, of_label: dict[object, set[str]], names: frozenset[str]) -> _File:
    helpers = dict(_helper_rows(diff, names))
    shared = {number for first, after in helpers.values() for number in range(first, after)}
    imports = list(_import_rows(diff)) if not diff.is_new else []
    owners: dict[int, frozenset[str]] = {}
    for number, row in enumerate(diff.rows):
        if row.changed and number not in shared and number not in imports and not diff.is_new:
            owners[number] = frozenset(name for label in diff.labels(row) for name in of_label.get(_key(label), ()))
    _adopt(owners)
    rows_of: dict[str, list[int]] = {}
    for number in sorted(owners):
        for name in owners[number]:
            rows_of.setdefault(name, []).append(number)
    return _File(diff, _paint_old(diff), paint("".join(diff.new)), helpers, imports, rows_of)


def _import_rows(diff: FileDiff) -> Iterator[int]:
    """The rows of imports that the file gets, changes or loses at its top level."""
    is_open = False  # behind the opening bracket of an import of several lines
    for number, row in enumerate(diff.rows):
        sides = [diff.new[row.new]] if row.new is not None else []
        sides += [diff.old[row.old]] if row.old is not None else []
        if row.changed and (is_open or all(line.startswith(("import ", "from ")) for line in sides)):
            yield number
            is_open = ")" not in sides[0] and ("(" in sides[0] or is_open)
        else:
            is_open = False


def _paint_old(diff: FileDiff) -> dict[int, list[Token]]:
    """The tokens of the lines that are gone or changed; the others look as in the new text."""
    painted: dict[int, list[Token]] = {}
    for run in _runs(diff.rows):
        positions = [row.old for row in run if row.changed and row.old is not None]
        painted.update(zip(positions, paint("".join(diff.old[n] for n in positions)), strict=False))
    return painted


def _runs(rows: Iterable[Row]) -> list[list[Row]]:
    """Rows in runs that all changed, or that all stayed."""
    runs: list[list[Row]] = []
    for row in rows:
        if runs and runs[-1][0].changed == row.changed:
            runs[-1].append(row)
        else:
            runs.append([row])
    return runs


def _adopt(owners: dict[int, frozenset[str]]) -> None:
    """A changed row that no edit claims (a blank line between two of them) belongs to the fixes beside it."""
    for number in sorted(owners):
        if not owners[number] and owners.get(number - 1):
            owners[number] = owners[number - 1]
    for number in sorted(owners, reverse=True):
        if not owners[number] and owners.get(number + 1):
            owners[number] = owners[number + 1]


def _helper_rows(diff: FileDiff, names: frozenset[str]) -> Iterator[tuple[str, tuple[int, int]]]:
    """For each helper that the file gets, the range of its rows, with the blank ones around it."""
    current, start, pending = "", 0, 0  # the helper that is being read, its first row, and where the next one begins
    for number, row in enumerate([*diff.rows, Row(0, 0, False)]):
        line = diff.new[row.new] if row.changed and row.old is None and row.new is not None else None
        if line is not None and (not line.strip() or line[0].isspace() or line[0] in ")]}#"):
            continue
        if current:
            yield current, (start, number)
            current, pending = "", number
        if line is None:
            pending = number + 1
        elif line[0] != "@":
            found = _DEFINITION.match(line)
            current = _helper_name((found[1] or found[2]) if found else "", names)
            start, pending = pending, number + 1


def _helper_name(name: str, names: frozenset[str]) -> str:
    """The helper behind a name: itself, or with an ending where the program has one of that name."""
    if name in names:
        return name
    return max((one for one in names if name.startswith(f"{one}_")), key=len, default="")


def _helpers(file: _File, fixes: Iterable[Fix]) -> Iterator[HelperView]:
    for name, (start, end) in file.helpers.items():
        while start < end and not _new_line(file, start).strip():
            start += 1
        while end > start and not _new_line(file, end - 1).strip():
            end -= 1
        needing = tuple(fix for fix in fixes if name in {one.name for one in with_needs(fix.helpers)})
        text = "".join(_new_line(file, number) for number in range(start, end))
        yield HelperView(name, _docstring(text), _hunk(file, start, end, lambda number: False), needing)


def _new_line(file: _File, number: int) -> str:
    position = file.diff.rows[number].new
    return file.diff.new[position] if position is not None else ""


def _docstring(text: str) -> str:
    """The first line of a helper's docstring; a constant has none."""
    node = ast.parse(text).body[0]
    told = ast.get_docstring(node) if isinstance(node, ast.FunctionDef | ast.ClassDef) else None
    return (told or "").split("\n")[0]


# -------------------------------------------------------------------- markup
def _hunks(file: _File, wanted: list[int]) -> Iterator[Hunk]:
    """The hunks around the wanted rows; other changed rows in them are faded."""
    own = frozenset(wanted)
    for start, end in file.diff.windows(wanted):
        yield _hunk(file, start, end, lambda number: file.diff.rows[number].changed and number not in own)


def _hunk(file: _File, start: int, end: int, is_faded: Callable[[int], bool]) -> Hunk:
    rows = file.diff.rows[start:end]
    numbers = [row.new for row in rows if row.new is not None] or [row.old for row in rows if row.old is not None]
    parts: list[str] = []
    for run in _runs(rows):
        lines = [
            _line(file, number, side, is_faded(number)) for side in _GAPS for number in range(start, start + len(run))
        ]
        parts.append(f'<div class="{"chg" if run[0].changed else "same"}">{"".join(lines)}</div>')
        start += len(run)
    code = Markup(f'<div class="code w{min(_width(file.diff), 5)}">{"".join(parts)}</div>')
    return Hunk(file.diff.path, (numbers[0] or 0) + 1, (numbers[-1] or 0) + 1, code)


_GAPS = {"old": '<span class="gap o"></span>', "new": '<span class="gap"></span>'}
_DEEPEST = 40  # deeper indentation is not followed by the lines that a long line is broken into


def _width(diff: FileDiff) -> int:
    """Characters of the largest line number."""
    return max(2, len(str(max(len(diff.old), len(diff.new)))))


def _line(file: _File, number: int, side: str, is_faded: bool) -> str:
    """One line of one side of a row, or a gap where the side has none."""
    key = (number, side, is_faded)
    if key not in file.lines:
        row = file.diff.rows[number]
        position = row.old if side == "old" else row.new
        file.lines[key] = _GAPS[side] if position is None else _made(file, row, side, position, is_faded)
    return file.lines[key]


def _made(file: _File, row: Row, side: str, position: int, is_faded: bool) -> str:
    """The markup of a line.  `data-s` is its number side by side, `data-u` are its numbers in the unified view."""
    width = _width(file.diff)
    old = f"{row.old + 1:>{width}}" if row.old is not None and (side == "old" or not row.changed) else " " * width
    new = f"{row.new + 1:>{width}}" if row.new is not None and (side == "new" or not row.changed) else " " * width
    tag = "span" if not row.changed else "del" if side == "old" else "ins"
    text = (file.diff.old if side == "old" else file.diff.new)[position]
    indent = min(len(text) - len(text.lstrip(" ")), _DEEPEST) if text.strip() else 0
    names = ["l", "o" * (side == "old" and not row.changed), "x" * is_faded, f"i{indent}" if indent else ""]
    ranges: Marks = ()
    if row.changed and row.old is not None and row.new is not None:
        ranges = (file.diff.old_marks if side == "old" else file.diff.new_marks).get(position, ())
    painted = file.old.get(position, ()) if row.changed and side == "old" else file.new[row.new or 0]
    code = line_html(painted, ranges)
    own = old if side == "old" else new
    return f'<{tag} class="{" ".join(filter(None, names))}" data-s="{own}" data-u="{old} {new}">{code}</{tag}>'
