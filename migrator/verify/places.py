"""Where a program and its converted form lie, in the user's tree and in the copies that are run.

In: a `VerifyRequest`.  Out: the folder to copy, the entry in it, and the copy of the converted project.  Writes below the scratch folder only.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .settings import VerifyRequest
from .workspace import Workspace, copy_project, files_of, lay_over, put

MOST_BESIDE = 500  # files of the converted program's folder


@dataclass(frozen=True, slots=True)
class Places:
    """Where the program lies in the user's tree, relative to the folder that is copied."""

    root: Path
    cwd: Path
    entry: Path


def find_places(request: VerifyRequest) -> Places:
    """Which folder is copied, and where in it the program starts."""
    entry = request.before.resolve()
    cwd = (request.cwd or Path.cwd()).resolve()
    inside = entry == cwd or cwd in entry.parents
    own = entry if request.module is not None else entry.parent
    root = request.root.resolve() if request.root is not None else (cwd if inside else own)
    if root not in (entry, *entry.parents):
        raise ValueError(f"{request.before} is not inside {root}, the folder to copy")
    start = cwd.relative_to(root) if cwd == root or root in cwd.parents else Path(".")
    return Places(root, start, entry.relative_to(root))


def after_entry(request: VerifyRequest, places: Places) -> Path:
    """The converted entry, relative to the converted copy."""
    assert request.after is not None
    return _in_place(request.after.resolve(), places) or places.entry


def _in_place(after: Path, places: Places) -> Path | None:
    """A converted file that runs where it lies in the project; one of the entry's name in another folder takes its place."""
    if not after.is_file() or places.root not in after.parents:
        return None
    own = after.relative_to(places.root)
    return own if own.parent == places.entry.parent or own.name != places.entry.name else None


def copy_after(request: VerifyRequest, places: Places, target: Path) -> Workspace:
    """The converted project: a whole folder as it is; single files, or a folder of changed files (`convert --output`), take
    their places in a copy of the original project.  Raises `ValueError` when the entry is not there."""
    assert request.after is not None
    after = request.after.resolve()
    if after.is_dir() and after != places.root and not _is_part(after, places):
        return copy_project(after, target)
    space = copy_project(places.root, target)
    beside = target / (places.entry if request.module is not None else places.entry.parent)
    if after.is_dir() and after != places.root:
        # `convert --output` writes below the program's folder, which need not be where verify was started.
        names = files_of(after, ".py")
        known = {base: sum((base / name).exists() for name in names) for base in (target, beside)}
        if not any(known.values()):
            raise ValueError(f"{request.after} holds none of the program's files")
        lay_over(after, max(known, key=lambda base: known[base]))
    elif after.is_file() and _in_place(after, places) is None:
        for name in files_of(after.parent, ".py")[:MOST_BESIDE]:
            if name != after.name:
                put(after.parent / name, beside / name, target)
        put(after, target / places.entry, target)
    return Workspace(target, space.relist())


def _is_part(after: Path, places: Places) -> bool:
    """Whether the folder holds only some of the project's modules."""
    inside = after.relative_to(places.root) if places.root in after.parents else None
    names = files_of(places.root, ".py")
    return any(not (after / name).exists() for name in names if inside is None or inside not in Path(name).parents)
