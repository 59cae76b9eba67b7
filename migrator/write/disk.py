"""Single steps on the disk, of which `journal` makes a change of several files.

In: paths, open files and bytes.  Out: the step, done, or the `OSError` that the system gave.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

# hashlib is imported where it is needed: most runs find no journal.


def put(handle: int, data: bytes) -> None:
    """Write all of the data, however often the system takes only a part of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def remove(path: str) -> None:
    """Remove a file that may be gone already."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(path)


def hash_of(data: bytes) -> str:
    """SHA-256, in hexadecimal."""
    import hashlib

    return hashlib.sha256(data).hexdigest()


def digest(path: str) -> str | None:
    """The hash of a file's content; None where there is no file."""
    try:
        with open(path, "rb") as stream:
            return hash_of(stream.read())
    except (FileNotFoundError, NotADirectoryError):
        return None


def flush(folder: str) -> None:
    """Have the names in a folder on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # file systems that know no flushing of folders
            raise
    finally:
        os.close(handle)


def is_at(handle: int, path: Path) -> bool:
    """True when the open file is still the one at the path."""
    try:
        there = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    own = os.fstat(handle)
    return (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino)


def umask() -> int:
    """The permissions that new files of this process do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
