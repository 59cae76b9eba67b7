"""A changed file as rows: old and new lines side by side, what changed within them, and the fixes behind each.

In: a `FileChange`.  Out: a `FileDiff`.  Lines are counted as git counts them.  Nothing here knows of HTML.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from migrator.convert.conversion import FileChange
from migrator.edits import Label
from migrator.formats.diff import numbered_lines

_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_ALIKE = 0.5  # lines that have less in common than this are two lines, not one that changed
_LEAST_KEPT = 4  # characters: a bracket alone makes no two lines alike
_MOST_PAIRS = 400
Marks = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the old text, of the new one, or of both: positions from 0; `changed` where they differ."""

    old: int | None
    new: int | None
    changed: bool


@dataclass(frozen=True, slots=True)
class FileDiff:
    """All rows of a file; labels and marks by position of the line."""

    path: str
    is_new: bool
    old: list[str]
    new: list[str]
    rows: list[Row]
    old_labels: dict[int, frozenset[Label]]
    new_labels: dict[int, frozenset[Label]]
    old_marks: dict[int, Marks]
    new_marks: dict[int, Marks]

    def labels(self, row: Row) -> frozenset[Label]:
        """The labels of both sides of a row."""
        empty: frozenset[Label] = frozenset()
        before = self.old_labels.get(row.old, empty) if row.old is not None else empty
        return before | (self.new_labels.get(row.new, empty) if row.new is not None else empty)

    @property
    def added(self) -> int:
        return sum(1 for row in self.rows if row.changed and row.new is not None)

    @property
    def removed(self) -> int:
        return sum(1 for row in self.rows if row.changed and row.old is not None)

    def windows(self, wanted: Sequence[int], context: int = 3) -> Iterator[tuple[int, int]]:
        """Ranges of rows: the wanted ones (numbers in order) with unchanged rows around them, joined where they meet."""
        start = end = -1
        for number in wanted:
            if end >= 0 and number - context > end:
                yield self._without_blank_edges(start, end)
                end = -1
            if end < 0:
                start = max(number - context, 0)
            end = min(number + context + 1, len(self.rows))
        if end >= 0:
            yield self._without_blank_edges(start, end)

    def _without_blank_edges(self, start: int, end: int) -> tuple[int, int]:
        """A range without the unchanged blank rows at its ends."""
        while start < end and self._is_blank(start):
            start += 1
        while start < end and self._is_blank(end - 1):
            end -= 1
        return start, end

    def _is_blank(self, number: int) -> bool:
        row = self.rows[number]
        return not row.changed and row.new is not None and not self.new[row.new].strip()


def compare(change: FileChange) -> FileDiff:
    """The rows of a change."""
    old, old_numbers = numbered_lines(change.before or "")
    new, new_numbers = numbered_lines(change.after)
    diff = FileDiff(
        change.path,
        change.before is None,
        old,
        new,
        [],
        _by_position(old_numbers, change.labels_before),
        _by_position(new_numbers, change.labels_after),
        {},
        {},
    )
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            diff.rows.extend(Row(i1 + n, j1 + n, False) for n in range(i2 - i1))
        else:
            diff.rows.extend(_aligned(diff, range(i1, i2), range(j1, j2)))
    return diff


def _by_position(numbers: Sequence[int], labels: Mapping[int, frozenset[Label]]) -> dict[int, frozenset[Label]]:
    """Labels by position of the line: a line for git may be several for Python."""
    found = {}
    for position in range(len(numbers) - 1):
        first, after = numbers[position], max(numbers[position + 1], numbers[position] + 1)
        own = [labels[n] for n in range(first, after) if n in labels]
        if own:
            found[position] = frozenset().union(*own)
    return found


def _aligned(diff: FileDiff, old: range, new: range) -> Iterator[Row]:
    """The rows of a changed block: lines that became other lines side by side, the rest on their own."""
    words_old = [_WORD.findall(diff.old[i].rstrip("\r\n")) for i in old]
    words_new = [_WORD.findall(diff.new[j].rstrip("\r\n")) for j in new]
    i = j = 0
    for a, b in [*_pairs(words_old, words_new), (len(old), len(new))]:
        yield from (Row(old[n], None, True) for n in range(i, a))
        yield from (Row(None, new[n], True) for n in range(j, b))
        if a < len(old) and b < len(new):
            diff.old_marks[old[a]], diff.new_marks[new[b]] = _marks(words_old[a], words_new[b])
            yield Row(old[a], new[b], True)
        i, j = a + 1, b + 1


def _pairs(old: list[list[str]], new: list[list[str]]) -> list[tuple[int, int]]:
    """Which line became which, in order: the choice with the most in common."""
    if len(old) * len(new) > _MOST_PAIRS:
        return [(n, n) for n in range(min(len(old), len(new))) if _likeness(old[n], new[n]) >= _ALIKE]
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    like = [[_likeness(a, b) for b in new] for a in old]
    for i in reversed(range(len(old))):
        for j in reversed(range(len(new))):
            paired = like[i][j] + best[i + 1][j + 1] if like[i][j] >= _ALIKE else 0.0
            best[i][j] = max(best[i + 1][j], best[i][j + 1], paired)
    pairs, i, j = [], 0, 0
    while i < len(old) and j < len(new):
        if like[i][j] >= _ALIKE and best[i][j] == like[i][j] + best[i + 1][j + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


def _likeness(old: list[str], new: list[str]) -> float:
    """How much of two lines is the same, by words without the white space (an indented line is still that line)."""
    a, b = [w for w in old if not w.isspace()], [w for w in new if not w.isspace()]
    if a == b:
        return 1.0
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False)
    if matcher.real_quick_ratio() < _ALIKE or matcher.quick_ratio() < _ALIKE:
        return 0.0
    kept = sum(len("".join(a[block.a : block.a + block.size])) for block in matcher.get_matching_blocks())
    return kept / min(len("".join(a)), len("".join(b))) if kept >= _LEAST_KEPT else 0.0


def _marks(old: list[str], new: list[str]) -> tuple[Marks, Marks]:
    """The character ranges that differ, in the old line and in the new one."""
    marks: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    indents = [words[0] if words and words[0].isspace() else "" for words in (old, new)]
    if indents[0] != indents[1] and indents[0].startswith(indents[1]) | indents[1].startswith(indents[0]):
        inner = _marks([" ", *old[bool(indents[0]) :]], [" ", *new[bool(indents[1]) :]])
        return _indented(inner[0], *indents), _indented(inner[1], *reversed(indents))
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            for side, words, first, last in ((0, old, i1, i2), (1, new, j1, j2)):
                start = sum(map(len, words[:first]))
                end = start + sum(map(len, words[first:last]))
                if end > start:
                    marks[side].append((start, end))
    return tuple(marks[0]), tuple(marks[1])


def _indented(marks: Marks, own: str, other: str) -> Marks:
    """Marks of a line that was compared with one space in the place of its indentation: what it has more than the other."""
    moved = tuple((start + len(own) - 1, end + len(own) - 1) for start, end in marks)
    return (*(((len(other), len(own)),) if len(own) > len(other) else ()), *moved)
