"""Which modules of a project are copies of somebody else's library.

In: a module's path and the project's folder.  Out: the folder that makes it a copy, or None.  A copy is read as any other code,
and never edited: its next update would take the edit away.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

_FOLDERS = re.compile(r"_?vendor(ed|s)?|3rd_?party|third[-_]?party|externals?|extern|submodules|dependencies|deps")
_MARKS = ("LICENSE*", "LICENCE*", "COPYING*", "PKG-INFO")


def vendored_folder(path: Path, root: Path, entry: Path) -> Path | None:
    """The outermost folder between the project's and the module that is called as such, or has a licence of its own.

    A folder in which the entry lies is the user's.
    """
    path, root, entry = path.resolve(), root.resolve(), entry.resolve()
    if not path.is_relative_to(root):
        return None
    for folder in reversed(path.parents):
        if folder != root and folder.is_relative_to(root) and folder not in entry.parents and _is_copy(folder):
            return folder
    return None


def is_called_vendored(path: Path, top: Path) -> bool:
    """True for a file below `top` in a folder whose name says that its code is somebody else's."""
    return any(_FOLDERS.fullmatch(part.lower()) for part in path.relative_to(top).parts[:-1])


@lru_cache(maxsize=1024)
def _is_copy(folder: Path) -> bool:
    if _FOLDERS.fullmatch(folder.name.lower()):
        return True
    return folder.is_dir() and any(next(folder.glob(mark), None) is not None for mark in _MARKS)
