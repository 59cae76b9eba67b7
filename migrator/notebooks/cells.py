"""The change of a notebook as its reader sees it: one change per cell, magics as they are written.

In: a `FileChange`.  Out: itself, or for a notebook a change for each cell that differs, whose path is `x.ipynb:cell 3` and
whose lines count from the cell's first.
"""

from __future__ import annotations

from collections.abc import Mapping

from migrator.convert.conversion import FileChange
from migrator.edits import Label
from migrator.notebooks.notebook import Notebook, split_cells


def by_cell(change: FileChange) -> list[FileChange]:
    """The change in parts that a reader knows."""
    source = change.source
    if not isinstance(source, Notebook) or change.before is None:
        return [change]
    before, after = dict(split_cells(change.before)), dict(split_cells(change.after))
    starts = [dict(_starts(text)) for text in (change.before, change.after)]
    parts = []
    for number, old in before.items():
        new = after[number]
        if old == new:
            continue
        labels = [
            _shifted(found, start[number], text)
            for found, start, text in zip((change.labels_before, change.labels_after), starts, (old, new), strict=True)
        ]
        texts = [f"{source.restored(text)}\n" if text else "" for text in (old, new)]
        parts.append(FileChange(f"{change.path}:cell {number}", texts[0], texts[1], None, *labels))
    return parts


def _starts(text: str) -> list[tuple[int, int]]:
    """For each cell the line of the program that stands before its first."""
    found, line = [], 0
    for number, part in split_cells(text):
        line = text.count("\n", 0, text.index(f'"mgmigrate cell {number}"\n{part}')) + 1
        found.append((number, line))
    return found


def _shifted(labels: Mapping[int, frozenset[Label]], start: int, text: str) -> dict[int, frozenset[Label]]:
    lines = text.count("\n") + 1
    return {number - start: found for number, found in labels.items() if start < number <= start + lines}
