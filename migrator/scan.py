"""Find the DataParallel programs in a tree.

In: a folder.  Out: its entry files (`find_entries`) or one row per program (`scan_tree`).  A substring test comes before any
parse, so that a tree costs what its hits cost.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SKIPPED = {".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", "site-packages", ".tox", "build", "dist"}
_HIT = re.compile(rb"\bDataParallel\s*\(|\bdata_parallel\s*\(|DataParallel\b")
_ENTRY = re.compile(rb"^if\s+.*__name__", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ScanRow:
    """A program: its role (training, evaluation), live wraps, the way its batch would be shared, and the outcome."""

    path: str
    role: str
    wraps: int
    way: str
    result: str
    questions: int


def python_files(folder: Path) -> Iterator[Path]:
    """All Python files below a folder, in a stable order; broken links and caches are passed over."""
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in _SKIPPED)
        for name in sorted(files):
            if name.endswith(".py"):
                yield Path(root, name)


def find_entries(folder: Path) -> list[Path]:
    """Entry files of programs that reach a DataParallel call."""
    hits = False
    candidates: list[Path] = []
    for path in python_files(folder):
        try:
            data = path.read_bytes()
        except OSError:
            continue
        hit = bool(_HIT.search(data))
        hits = hits or hit
        if hit or _ENTRY.search(data):
            candidates.append(path)
    if not hits:
        return []
    from migrator.facts.program import Program
    from migrator.project import load_project
    from migrator.source import SourceError

    entries = []
    for path in candidates:
        try:
            program = Program(load_project(path))
        except SourceError:
            if _HIT.search(path.read_bytes()):
                entries.append(path)
            continue
        if program.entry.kind != "library" and program.wraps:
            entries.append(path)
    return entries


def scan_tree(path: Path) -> list[ScanRow]:
    """One row per program."""
    from codemods.base import Options
    from migrator.convert import convert_program
    from migrator.facts.program import Program
    from migrator.project import load_project
    from migrator.source import SourceError

    rows = []
    for entry in find_entries(path) if path.is_dir() else [path]:
        try:
            program = Program(load_project(entry))
            conversion = convert_program(entry, Options())
        except SourceError as error:
            rows.append(ScanRow(str(entry), "unknown", 0, "", str(error), 1))
            continue
        questions = len(conversion.questions)
        result = (
            "nothing to do"
            if conversion.outcome == "nothing"
            else "converts"
            if not questions
            else f"{questions} to decide"
        )
        rows.append(
            ScanRow(
                str(entry),
                "training" if program.trains else "evaluation",
                len(program.wraps),
                conversion.way,
                result,
                questions,
            )
        )
    return rows
