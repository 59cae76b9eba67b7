"""Find the DataParallel programs in a tree.

In: a folder.  Out: its files (`walk`), those that may be entries of DataParallel programs (`candidates`), or one row per
program (`scan_tree`).  Text tests come before any parse: first for DataParallel itself, then for the imports that lead to
it, so that a tree costs what its hits cost.  Rules are asked, nothing is rewritten.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from migrator.facts.python.vendored import is_called_vendored
from migrator.load.source import SourceError, most_bytes, too_large
from migrator.write.journal import NAME as JOURNAL

if TYPE_CHECKING:
    from migrator.facts.program import Program

# What ruff passes over as well.
_SKIPPED = {".bzr", ".direnv", ".eggs", ".git", ".git-rewrite", ".hg", ".ipynb_checkpoints", ".mypy_cache", ".nox"}
_SKIPPED |= {".pants.d", ".pyenv", ".pytest_cache", ".pytype", ".ruff_cache", ".svn", ".tox", ".venv", ".vscode"}
_SKIPPED |= {
    "__pycache__",
    "__pypackages__",
    "_build",
    "buck-out",
    "build",
    "dist",
    "node_modules",
    "site-packages",
    "venv",
}
_HIT = re.compile(rb"\bDataParallel\b|\bdata_parallel\b")
_MAIN = re.compile(rb"^if\s+.*__name__", re.MULTILINE)
_IMPORT = re.compile(rb"^[ \t]*(?:from|import)\b(?:[^\n(]|\([^)]*\))*", re.MULTILINE)
VENDORED = "left alone: its folder says that it is somebody else's (name the file to convert it)"
_KEPT_BYTES = 48 << 20  # of texts in memory; what is beyond is read again when it is asked for


@dataclass(frozen=True, slots=True)
class Tree:
    """What lies below a folder, in a stable order: Python files and notebooks, journals of interrupted writes, folders that
    cannot be read."""

    folder: Path
    files: tuple[Path, ...]
    journals: tuple[Path, ...]
    problems: tuple[SourceError, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that may be the entry of a DataParallel program; `hit` when it names DataParallel itself, `vendored` when its
    folder says that it is somebody else's."""

    path: Path
    hit: bool
    vendored: bool = False


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


def walk(folder: Path) -> Tree:
    """The files below a folder; caches, environments and links to folders are passed over."""
    found: list[Path] = []
    journals: list[Path] = []
    problems: list[SourceError] = []

    def unreadable(error: OSError) -> None:
        problems.append(SourceError(str(error.filename), f"cannot be read: {error.strerror or error}"))

    for root, folders, files in os.walk(folder, onerror=unreadable):
        folders[:] = sorted(f for f in folders if f not in _SKIPPED)
        for name in sorted(files):
            if name.endswith((".py", ".ipynb")):
                found.append(Path(root, name))
            elif name == JOURNAL:
                journals.append(Path(root, name))
    return Tree(folder, tuple(found), tuple(journals), tuple(problems))


def scan_tree(tree: Tree) -> list[ScanRow]:
    """One row per program, and one for each file that names DataParallel and cannot be read."""
    found, problems = candidates(tree)
    rows = [ScanRow(error.path, "unknown", 0, "", error.message, 1) for error in problems]
    for candidate in found:
        program = _program(candidate.path)
        if is_program(candidate, program):
            row = _row(candidate.path, program)
            rows.append(replace(row, result=VENDORED, questions=0) if candidate.vendored else row)
    return sorted(rows, key=lambda row: row.path)


def scan_file(path: Path) -> ScanRow:
    """The row of a file that is given itself."""
    return _row(path, _program(path))


def is_program(candidate: Candidate, program: Program | SourceError) -> bool:
    """True for a program that uses DataParallel, and for a file that names it and cannot be read."""
    if isinstance(program, SourceError):
        return candidate.hit
    return program.entry.kind != "library" and bool(program.wraps)


def candidates(tree: Tree) -> tuple[list[Candidate], list[SourceError]]:
    """Files that may be entries of DataParallel programs, as far as their text tells, and what could not be read.

    What git ignores is passed over, as ruff passes it over, unless git ignores the whole folder.
    """
    texts = _Texts(tree.files)
    hits = {n for n in range(len(tree.files)) if b"arallel" in (data := texts[n]) and _HIT.search(data)}
    starts = (n for n in _reaching(texts, hits) - hits if _may_start(tree.files[n], texts[n]))
    found = {tree.files[n]: n in hits for n in sorted(hits.union(starts))}
    ignored = _ignored(tree.folder, list(found))
    real: dict[str, Candidate] = {}
    for path in sorted(found, key=os.path.islink):  # a link and its file are one program, by the name of the file
        if path not in ignored:
            own = Candidate(path, found[path], is_called_vendored(path, tree.folder))
            real.setdefault(os.path.realpath(path), own)
    return sorted(real.values(), key=lambda one: one.path), [*tree.problems, *texts.problems]


def _may_start(path: Path, data: bytes) -> bool:
    return path.suffix == ".ipynb" or _MAIN.search(data) is not None


class _Texts:
    """The bytes of files, by position, read once where memory allows; what cannot be read is empty and a problem."""

    def __init__(self, files: Iterable[Path]):
        self.files, self.problems = tuple(files), list[SourceError]()
        self._kept: list[bytes | None] = [None] * len(self.files)
        self._size = 0

    def __getitem__(self, position: int) -> bytes:
        known = self._kept[position]
        if known is not None:
            return known
        data = self._read(self.files[position])
        if not data or self._size + len(data) <= _KEPT_BYTES:
            self._kept[position] = data
            self._size += len(data)
        return data

    def _read(self, path: Path) -> bytes:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would keep us waiting
            try:
                state = os.fstat(handle)
                if not stat.S_ISREG(state.st_mode):
                    return b""
                if state.st_size <= most_bytes(path.name):
                    return os.read(handle, state.st_size)
            finally:
                os.close(handle)
            message = too_large(path.name)
        except OSError as error:
            broken = isinstance(error, FileNotFoundError) and path.is_symlink()
            message = "is a broken symbolic link" if broken else f"cannot be read: {error.strerror or error}"
        self.problems.append(SourceError(str(path), message))
        return b""


def _reaching(texts: _Texts, hits: set[int]) -> set[int]:
    """The hits and the files that import them, over any number of steps, as far as names tell; all by position."""
    reached, queue, known = set(hits), list(hits), set()
    while queue:
        path = texts.files[queue.pop()]
        name = (path.parent.name if path.name == "__init__.py" else path.stem).encode()
        if name in known:
            continue
        known.add(name)
        word = re.compile(rb"\b" + re.escape(name) + rb"\b")
        for importer, file in enumerate(texts.files):
            if importer in reached or name not in (data := texts[importer]):
                continue
            lines = [data] if file.suffix == ".ipynb" else _IMPORT.findall(data)
            if any(word.search(line) for line in lines):
                reached.add(importer)
                queue.append(importer)
    return reached


def _ignored(folder: Path, paths: Sequence[Path]) -> set[Path]:
    """Those of the paths that git ignores."""
    if not paths:
        return set()
    names = [os.path.relpath(path, folder) for path in paths]
    command = ["git", "-C", str(folder), "check-ignore", "-z", "--stdin"]
    asked = "\0".join([".", *names]).encode("utf-8", "surrogateescape")
    try:
        done = subprocess.run(command, input=asked, capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return set()  # no git, nothing that it ignores
    told = set(done.stdout.decode("utf-8", "surrogateescape").split("\0")) if done.returncode == 0 else set()
    return set() if "." in told else {path for path, name in zip(paths, names, strict=True) if name in told}


def _program(path: Path) -> Program | SourceError:
    """The linked program behind an entry, or what is wrong with it."""
    from migrator.facts.program import Program
    from migrator.load.project import load_project

    try:
        return Program(load_project(path))
    except SourceError as error:
        return error.alone()


def _row(entry: Path, program: Program | SourceError) -> ScanRow:
    from codemods.options import Options
    from migrator.convert.diagnose import diagnose
    from migrator.errors import internal_error

    if isinstance(program, SourceError):
        told = f"{program.message} (line {program.line})" if program.line else program.message
        return ScanRow(str(entry), "unknown", 0, "", told, 1)
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
