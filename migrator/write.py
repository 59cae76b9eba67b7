"""Put a conversion on disk: all files or none.

In: a `Conversion` and where to.  Out: changed files.  Every new content is written beside its target and flushed first; only
when all are there are they moved into place.  Raises `WriteError` with one clear line, and leaves nothing behind.
"""

from __future__ import annotations

import ast
import os
import subprocess
import tempfile
from pathlib import Path

from migrator.convert import Conversion, FileChange


class WriteError(Exception):
    """Nothing was written; the message says why."""


def encoded(change: FileChange) -> bytes:
    """The bytes of the new file, in the encoding of the old one."""
    return change.source.encode(change.after) if change.source is not None else change.after.encode()


def check_result(conversion: Conversion) -> None:
    """Refuse a result that does not parse."""
    for change in conversion.changes:
        try:
            ast.parse(change.after)
        except SyntaxError as error:
            raise WriteError(
                f"{change.path}: the result does not parse (line {error.lineno}: {error.msg}); nothing was written"
            ) from error


def dirty_files(paths: list[Path]) -> list[str]:
    """Files with uncommitted changes, by git; empty where there is no git."""
    dirty = []
    for path in paths:
        if not path.exists():
            continue
        try:
            done = subprocess.run(
                ["git", "-C", str(path.resolve().parent), "status", "--porcelain", "--", path.name],
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return []
        if done.returncode == 0 and done.stdout.strip():
            dirty.append(str(path))
    return dirty


def write_files(contents: dict[Path, bytes]) -> None:
    """Write all files or none, atomically each."""
    staged: list[tuple[str, Path]] = []
    try:
        for target, data in contents.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.exists() and not os.access(target, os.W_OK):
                raise WriteError(f"{target}: is read-only; nothing was written")
            handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
            staged.append((name, target))
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
            os.chmod(name, mode)
    except OSError as error:
        for name, _ in staged:
            Path(name).unlink(missing_ok=True)
        raise WriteError(f"{error.filename or ''}: {error.strerror or error}; nothing was written") from error
    except WriteError:
        for name, _ in staged:
            Path(name).unlink(missing_ok=True)
        raise
    for name, target in staged:
        os.replace(name, target)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
