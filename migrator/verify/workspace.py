"""A copy of the project that a run may write into, and what it wrote.

In: the project's folder.  Out: a folder of the same shape: small files copied, large ones linked (to be read), version
control, environments and caches left out; and, after a run, the files that are new or changed.  The project itself is never
written to.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

LEFT_OUT = {".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache", ".tox"}
COPY_LIMIT = 1 << 20  # bytes: larger files are linked
COPY_TOTAL = 64 << 20
ENTRY_LIMIT = 3000  # entries of one folder: larger folders are linked as a whole
ENTRY_TOTAL = 20000


@dataclass(frozen=True, slots=True)
class Workspace:
    """A copied project, and its files as they were (relative path -> size and time of change)."""

    folder: Path
    initial: dict[str, tuple[int, int]]

    def relist(self) -> dict[str, tuple[int, int]]:
        return _listing(self.folder)

    def written(self) -> list[str]:
        """Files that are new or changed, as relative paths."""
        now = _listing(self.folder)
        return sorted(name for name, state in now.items() if self.initial.get(name) != state)


def copy_project(root: Path, target: Path) -> Workspace:
    """Copy `root` to `target` within limits of size and number."""
    budget = [COPY_TOTAL, ENTRY_TOTAL]
    target.mkdir(parents=True)
    place = target.resolve()
    _copy(root, target, budget, {place, *place.parents})
    return Workspace(target, _listing(target))


def _copy(source: Path, target: Path, budget: list[int], spared: set[Path]) -> None:
    for entry in sorted(os.scandir(source), key=lambda e: e.name):
        if entry.name in LEFT_OUT or entry.name.endswith(".pyc"):
            continue
        if Path(entry.path) in spared:
            continue  # the scratch folder itself may lie in the project
        budget[1] -= 1
        place = target / entry.name
        if entry.is_symlink() and not entry.is_dir():
            place.symlink_to(os.path.realpath(entry.path))
        elif entry.is_dir():
            if budget[1] < 0 or entry.is_symlink() or _crowded(entry.path):
                place.symlink_to(os.path.realpath(entry.path))
            else:
                place.mkdir()
                _copy(Path(entry.path), place, budget, spared)
        elif entry.is_file():
            size = entry.stat().st_size
            if size > COPY_LIMIT or size > budget[0] or budget[1] < 0:
                place.symlink_to(os.path.realpath(entry.path))
            else:
                budget[0] -= size
                shutil.copy2(entry.path, place)


def lay_over(source: Path, target: Path) -> None:
    """Put the files of `source` in the place of those of a copied project, or beside them."""
    for name in files_of(source):
        put(source / name, target / name, target)


def put(new: Path, place: Path, copy: Path) -> None:
    """One file to its place in a project's copy, and never through a link into the user's own folder."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.parent.resolve().is_relative_to(copy.resolve()):
        raise ValueError(f"{place.relative_to(copy)}: lies in a folder that is too large to copy")
    place.unlink(missing_ok=True)
    if new.stat().st_size > COPY_LIMIT:
        place.symlink_to(new.resolve())
    else:
        shutil.copy2(new, place)


def files_of(folder: Path, ending: str = "") -> list[str]:
    """Relative paths of a project's files, without version control, environments and caches; of a huge one the first."""
    found: list[str] = []
    seen = 0
    for base, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in LEFT_OUT)
        seen += len(files) + len(folders)
        found += [os.path.relpath(os.path.join(base, f), folder) for f in sorted(files) if f.endswith(ending)]
        if seen > ENTRY_TOTAL:
            break
    return found


def _crowded(path: str) -> bool:
    with os.scandir(path) as entries:
        return sum(1 for _ in zip(entries, range(ENTRY_LIMIT + 1), strict=False)) > ENTRY_LIMIT


def _listing(folder: Path) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for base, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if f not in LEFT_OUT]
        for name in files:
            path = Path(base) / name
            try:
                state = path.lstat()
            except FileNotFoundError:
                continue  # removed while looking
            found[str(path.relative_to(folder))] = (state.st_size, state.st_mtime_ns)
    return found
