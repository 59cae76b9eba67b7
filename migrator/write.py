"""Put a conversion on disk: all files or none.

In: conversions and where to.  Out: changed files.  Every new content is written beside its target and flushed first; only
when all are there are they moved into place.  Raises `WriteError` with one clear line, and leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from codemods.base import Options
from migrator.convert import Conversion, FileChange, convert_program
from migrator.source import Source, SourceError, parse_tree


class WriteError(Exception):
    """Nothing was written; the message says why."""


def encoded(change: FileChange) -> bytes:
    """The bytes of the new file, in the encoding of the old one."""
    if change.source is None:
        return change.after.encode()
    try:
        return change.source.encode(change.after)
    except UnicodeEncodeError as error:
        bad = change.after[error.start : error.end]
        raise WriteError(f"{change.path}: {bad!r} cannot be written in {change.source.encoding}") from error


def check_result(conversion: Conversion, options: Options, partial: bool = False) -> None:
    """Refuse a result that does not parse, or that a second run would change again (`partial`: where fixes were refused, it
    would offer them again)."""
    overlay = dict(after_files(conversion))
    for change in conversion.changes:
        try:
            parse_tree(Source(change.path, change.after))
        except SourceError as error:
            raise WriteError(
                f"{change.path}: the result does not parse ({error.message}, line {error.line})"
            ) from error
    if not conversion.changes or partial:
        return
    again = convert_program(Path(conversion.entry), options, overlay=overlay)
    if again.changes:
        names = ", ".join(sorted({d.rule for d in again.diagnostics if d.fix}))
        place = again.changes[0].path
        raise WriteError(f"{place}: a second run would change the result again ({names}); please report this")


def after_files(conversion: Conversion) -> Iterator[tuple[Path, Source]]:
    """The changed and new files of a conversion by absolute path, as a second run would read them."""
    for change in conversion.changes:
        old = change.source
        encoding, bom = (old.encoding, old.bom) if old is not None else ("utf-8", False)
        yield Path(change.path).resolve(), Source(change.path, change.after, encoding, bom)


def target_contents(conversions: list[Conversion], output: Path | None, bases: Sequence[Path]) -> dict[Path, bytes]:
    """What to write where: in place, or below `output` relative to the base of each conversion."""
    contents: dict[Path, bytes] = {}
    for conversion, base in zip(conversions, bases, strict=True):
        paths = [Path(os.path.abspath(change.path)) for change in conversion.changes]
        common = Path(os.path.commonpath([os.path.abspath(base), *(p.parent for p in paths)])) if paths else base
        for change, path in zip(conversion.changes, paths, strict=True):
            target = Path(change.path) if output is None else output / path.relative_to(common)
            data = encoded(change)
            if contents.get(target, data) != data:
                raise WriteError(f"{target}: two programs want it changed differently; convert them one at a time")
            contents[target] = data
    return contents


def dirty_files(paths: Iterable[Path]) -> list[str]:
    """What git says is not committed: changed files of the trees that hold the paths, and the paths themselves when git
    does not know them.  Empty where there is no git."""
    dirty: dict[str, None] = {}
    folders = dict.fromkeys(path.resolve().parent for path in paths)
    for folder in folders:
        top = _git(folder, "rev-parse", "--show-toplevel")
        if top is None:
            continue
        for line in (_git(Path(top.strip()), "status", "--porcelain", "--untracked-files=no") or "").splitlines():
            dirty[line[3:]] = None
        for path in paths:
            if path.resolve().parent == folder and path.exists():
                state = _git(folder, "status", "--porcelain", "--", path.name)
                if state:
                    dirty[os.path.relpath(path.resolve(), top.strip())] = None
    return list(dirty)


def _git(folder: Path, *words: str) -> str | None:
    """What git prints, or None when there is no git or no repository."""
    command = ["git", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def write_files(contents: Mapping[Path, bytes]) -> None:
    """Write all files or none: each is replaced in one step, and what was replaced comes back when a later one fails."""
    staged: list[tuple[str, Path]] = []
    folders: list[Path] = []
    done: list[tuple[Path, bytes | None]] = []
    try:
        for name, data in contents.items():
            target = Path(os.path.realpath(name))  # a link stays a link
            folders += _make_folders(target.parent)
            staged.append((_stage(target, data, name), target))
        for temporary, target in staged:
            before = target.read_bytes() if target.exists() else None
            os.replace(temporary, target)
            done.append((target, before))
    except BaseException as error:
        _undo(staged, done, folders)
        if isinstance(error, OSError):
            place = error.filename if error.filename is not None else staged[-1][1] if staged else next(iter(contents))
            raise WriteError(f"{_named(place, contents)}: {error.strerror or error}") from error
        raise


def _stage(target: Path, data: bytes, shown: Path) -> str:
    """Write the new content beside the target, with the target's mode; returns the temporary file."""
    if target.is_dir():
        raise WriteError(f"{shown}: is a folder")
    if target.exists() and not target.stat().st_mode & 0o222:  # also for root, who could write
        raise WriteError(f"{shown}: is read-only")
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        mode = target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~_umask()
        os.chmod(name, mode)
        if target.exists() and os.geteuid() == 0:
            os.chown(name, target.stat().st_uid, target.stat().st_gid)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise
    return name


def _make_folders(folder: Path) -> list[Path]:
    """Make a folder and what is missing above it; returns what was made, outermost first."""
    missing = [p for p in (folder, *folder.parents) if not p.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing[::-1]


def _undo(staged: list[tuple[str, Path]], done: list[tuple[Path, bytes | None]], folders: list[Path]) -> None:
    for temporary, _ in staged:
        Path(temporary).unlink(missing_ok=True)
    for target, before in done:
        if before is None:
            target.unlink(missing_ok=True)
        else:
            target.write_bytes(before)
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _named(place: object, contents: Mapping[Path, bytes]) -> str:
    """The user's name of a target, when the place is one or lies beside one."""
    path = Path(str(place))
    for name in contents:
        real = os.path.realpath(name)
        if str(path) == real or path.name.startswith(f".{os.path.basename(real)[:100]}."):
            return str(name)
    return str(place)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
