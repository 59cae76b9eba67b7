"""Find the DataParallel programs in a tree.

In: a folder.  Out: its entry files (`find_entries`) or one row per program (`scan_tree`).  Text tests come before any parse:
first for DataParallel itself, then for the imports that lead to it, so that a tree costs what its hits cost.  Rules are
asked, nothing is rewritten.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from migrator.facts.program import Program

_SKIPPED = {".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", "site-packages", ".tox"}
_SKIPPED |= {".mypy_cache", ".ruff_cache", ".pytest_cache", ".eggs"}
_HIT = re.compile(rb"\bDataParallel\b|\bdata_parallel\b")
_MAIN = re.compile(rb"^if\s+.*__name__", re.MULTILINE)
_IMPORT = re.compile(rb"^[ \t]*(?:from|import)\b(?:[^\n(]|\([^)]*\))*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ScanRow:
    """A program: its role (training, evaluation), live wraps, the way its batch would be shared, and the outcome."""

    path: str
    role: str
    wraps: int
    way: str
    result: str
    questions: int

    def dump(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def python_files(folder: Path) -> Iterator[Path]:
    """All Python files below a folder, in a stable order; caches, environments and links to folders are passed over."""
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in _SKIPPED)
        for name in sorted(files):
            if name.endswith(".py"):
                yield Path(root, name)


def find_entries(folder: Path) -> list[Path]:
    """Entry files of programs that reach a DataParallel call."""
    return [path for path, _ in _find(folder)]


def scan_tree(path: Path) -> list[ScanRow]:
    """One row per program; a file that is given itself has a row in any case."""
    if path.is_dir():
        return [_row(entry, program) for entry, program in _find(path)]
    return [_row(path, _program(path))]


def _find(folder: Path) -> list[tuple[Path, Program | str]]:
    """Entries with their program, or with the reason why a file that names DataParallel cannot be read."""
    texts: dict[Path, bytes] = {}
    for path in python_files(folder):
        try:
            texts[path] = path.read_bytes()
        except OSError:
            continue
    hits = {path for path, data in texts.items() if b"arallel" in data and _HIT.search(data)}
    found: list[tuple[Path, Program | str]] = []
    for path in sorted(_reaching(texts, hits)):
        if path not in hits and not _MAIN.search(texts[path]):
            continue
        program = _program(path)
        if isinstance(program, str):
            if path in hits:
                found.append((path, program))
        elif program.entry.kind != "library" and program.wraps:
            found.append((path, program))
    return found


def _reaching(texts: dict[Path, bytes], hits: set[Path]) -> set[Path]:
    """The hits and the files that import them, over any number of steps, as far as names tell."""
    reached, queue, known = set(hits), list(hits), set()
    while queue:
        path = queue.pop()
        name = (path.parent.name if path.name == "__init__.py" else path.stem).encode()
        if name in known:
            continue
        known.add(name)
        word = re.compile(rb"\b" + re.escape(name) + rb"\b")
        for importer, data in texts.items():
            if importer not in reached and name in data and any(word.search(line) for line in _IMPORT.findall(data)):
                reached.add(importer)
                queue.append(importer)
    return reached


def _program(path: Path) -> Program | str:
    """The linked program behind an entry, or what is wrong with it."""
    from migrator.facts.program import Program
    from migrator.project import load_project
    from migrator.source import SourceError

    try:
        return Program(load_project(path))
    except SourceError as error:
        return f"{error.message} (line {error.line})" if error.line else error.message


def _row(entry: Path, program: Program | str) -> ScanRow:
    from codemods.base import Options
    from migrator.console import internal_error
    from migrator.convert import diagnose

    if isinstance(program, str):
        return ScanRow(str(entry), "unknown", 0, "", program, 1)
    role = "training" if program.trains else "evaluation"
    try:
        if not program.wraps:
            asked = len(program.look_alikes)
            return ScanRow(str(entry), role, 0, "", f"{asked} to decide" if asked else "nothing to do", asked)
        sharing, diagnostics = diagnose(program, Options())
    except Exception as error:
        return ScanRow(str(entry), "unknown", 0, "", internal_error(error), 1)
    questions = sum(1 for d in diagnostics if d.level == "question")
    result = f"{questions} to decide" if questions else "converts"
    return ScanRow(str(entry), role, len(program.wraps), sharing.way, result, questions)
