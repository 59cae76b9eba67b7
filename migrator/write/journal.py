"""Change several files as one: after a kill at any moment the next run finds all old files or all new ones.

In: new contents by path.  Out: the files, replaced; or a `WriteError`, and everything as it was.  What is about to happen is
written to a journal first (one line of JSON, flushed to the disk); the new contents and second links to the old ones lie
beside their targets while the targets are replaced one by one.  The word `done` in the journal is the moment at which the
change has happened: a journal without it is undone by `recover`, one with it is only cleaned up.  A process that still
writes holds a lock on its journal.  A journal is never believed about files outside its own folder.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from migrator.write.disk import digest, flush, hash_of, is_at, put, remove, umask

# json is imported where it is needed: most runs find no journal.
NAME = ".mgmigrate-journal"
_HEAD = b'{"mgmigrate": 1,'
_DONE = b"done\n"
_OWN = re.compile(r"\..{1,100}\.[0-9a-f]{8}\.mgmigrate-(new|old)", re.DOTALL)


class WriteError(Exception):
    """Files could not be written; the message says why, `outcome` what is on the disk now."""

    def __init__(self, message: str, outcome: str = "nothing was written"):
        super().__init__(message)
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class _Row:
    """One file: absolute paths of it, its new content and its old one; SHA-256 of both contents (None: there is no file)."""

    target: str
    new: str
    old: str
    before: str | None
    after: str


# -------------------------------------------------------------------- writing
def write_all(contents: Mapping[Path, bytes], home: Path) -> None:
    """Replace or make all files, or none; `home` is a folder above all of them, where the next run will look."""
    shown = {os.path.realpath(name): name for name in contents}  # a link stays a link
    data = {target: contents[name] for target, name in shown.items()}
    at: str | Path = home / NAME
    try:
        rows = _plan(data, shown)
        folders = _missing_folders(rows)
        handle = _begin(home, rows, folders)
    except OSError as error:
        raise WriteError(f"{shown.get(str(error.filename), at)}: {error.strerror or error}") from error
    try:
        try:
            for folder in folders:
                at = folder
                os.mkdir(folder)
            for row in rows:
                at = row.target
                _stage(row, data[row.target])
            _flush_folders(rows)
            for row in rows:
                at = row.target
                os.replace(row.new, row.target)
            _flush_folders(rows)
            put(handle, _DONE)
            os.fsync(handle)
        except BaseException as error:
            _undo(handle, home, rows, folders, error)
            if isinstance(error, OSError):
                raise WriteError(f"{shown.get(str(at), at)}: {error.strerror or error}") from error
            raise
        try:
            _clean_up(home, rows)
        except OSError as error:
            told = "everything was written, and the next run cleans up"
            raise WriteError(f"{error.filename or home}: {error.strerror or error}", told) from error
    finally:
        os.close(handle)


def _plan(data: Mapping[str, bytes], shown: Mapping[str, Path]) -> list[_Row]:
    token = os.urandom(4).hex()
    rows = []
    for target, content in data.items():
        if os.path.isdir(target):
            raise WriteError(f"{shown[target]}: is a folder")
        if os.path.exists(target) and not os.stat(target).st_mode & 0o222:  # also for root, who could write
            raise WriteError(f"{shown[target]}: is read-only")
        stem = os.path.join(os.path.dirname(target), f".{os.path.basename(target)[:100]}.{token}.mgmigrate-")
        rows.append(_Row(target, stem + "new", stem + "old", digest(target), hash_of(content)))
    return rows


def _missing_folders(rows: Iterable[_Row]) -> list[str]:
    """Folders that have to be made, outer ones first."""
    missing: dict[str, None] = {}
    for row in rows:
        above = [p for p in Path(row.target).parents if not p.exists()]
        missing |= dict.fromkeys(map(str, reversed(above)))
    return list(missing)


def _begin(home: Path, rows: Sequence[_Row], folders: Sequence[str]) -> int:
    """Write the journal and lock it; raises `WriteError` where another process writes."""
    import json

    while True:
        try:
            handle = os.open(home / NAME, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            recover(home / NAME)
            continue
        fcntl.flock(handle, fcntl.LOCK_EX)
        if is_at(handle, home / NAME):  # nobody took it for a dead one before it was locked
            break
        os.close(handle)
    try:
        files = [
            {k: os.path.relpath(v, home) if k in ("target", "new", "old") else v for k, v in asdict(row).items()}
            for row in rows
        ]
        body = json.dumps({"mgmigrate": 1, "files": files, "folders": [os.path.relpath(f, home) for f in folders]})
        put(handle, body.encode() + b"\n")
        os.fsync(handle)
        flush(str(home))
    except BaseException:
        os.unlink(home / NAME)
        os.close(handle)
        raise
    return handle


def _stage(row: _Row, data: bytes) -> None:
    """Put the new content and a second link to the old one beside the target; the new file has the target's mode."""
    handle = os.open(row.new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        put(handle, data)
        old = os.stat(row.target) if row.before is not None else None
        if old is not None and os.geteuid() == 0:
            os.fchown(handle, old.st_uid, old.st_gid)
        os.fchmod(handle, stat.S_IMODE(old.st_mode) if old is not None else 0o666 & ~umask())
        os.fsync(handle)
    finally:
        os.close(handle)
    if row.before is not None:
        _second_link(row)


def _second_link(row: _Row) -> None:
    """Keep the old file under another name; where the file system knows no links, a copy of it."""
    try:
        os.link(row.target, row.old)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        handle = os.open(row.old, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            put(handle, Path(row.target).read_bytes())
            os.fchmod(handle, stat.S_IMODE(os.stat(row.target).st_mode))
            os.fsync(handle)
        finally:
            os.close(handle)


def _undo(handle: int, home: Path, rows: Sequence[_Row], folders: Sequence[str], cause: BaseException) -> None:
    """Put everything back now; what the disk refuses even then stays in the journal for the next run."""
    try:
        end = os.lseek(handle, 0, os.SEEK_END)
        os.ftruncate(handle, end - len(_DONE) if os.pread(handle, end, 0).endswith(b"\n" + _DONE) else end)
        _roll_back(home, rows, folders)
    except OSError as error:
        told = "the next run of mgmigrate in this tree puts everything back"
        raise WriteError(f"{error.filename or home}: {error.strerror or error}", told) from cause


# -------------------------------------------------------------------- recovery
def journals_above(path: Path) -> Iterator[Path]:
    """Journals of interrupted writes in the folder of a path and in those above it."""
    folder = Path(os.path.realpath(path))
    for place in (folder, *folder.parents):
        if os.path.lexists(place / NAME):
            yield place / NAME


def recover(journal: Path) -> str | None:
    """Bring the files of an interrupted write to one state; says in one line what was done (None: nothing was left to do).

    Raises `WriteError` where a process still writes, where a file was changed since, or where the disk refuses.
    """
    home = Path(os.path.realpath(journal.parent))
    try:
        handle = os.open(home / NAME, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise WriteError(f"{journal}: cannot be read: {error.strerror or error}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not is_at(handle, home / NAME):
            return None
        return _settle(journal, home, os.pread(handle, os.fstat(handle).st_size, 0))
    except BlockingIOError as error:
        raise WriteError(
            f"{journal.parent}: another mgmigrate is writing there; run this again when it is done"
        ) from error
    except OSError as error:
        raise WriteError(
            f"{error.filename or journal}: {error.strerror or error}", "an interrupted --write is not settled"
        ) from error
    finally:
        os.close(handle)


def _settle(journal: Path, home: Path, data: bytes) -> str:
    line, newline, rest = data.partition(b"\n")
    if not newline and _HEAD.startswith(line[: len(_HEAD)]):
        os.unlink(home / NAME)
        return f"{journal.parent}: an interrupted --write had not begun to change anything"
    rows, folders = _read(journal, home, line)
    if rest == _DONE:
        _clean_up(home, rows)
        return f"{journal.parent}: an interrupted --write had written everything; what it left behind was removed"
    for row in rows:
        now = digest(row.target)
        is_ours = now == row.after and (row.before is None or digest(row.old) == row.before)
        if now != row.before and not is_ours:
            raise WriteError(
                f"{row.target}: was changed after a --write of it was interrupted; its old content is in {row.old}:"
                f" choose one, then remove {journal}",
                "the files are as the interruption left them",
            )
    _roll_back(home, rows, folders)
    return f"{journal.parent}: an interrupted --write was undone: {len(rows)} {'file is' if len(rows) == 1 else 'files are'} as before"


def _read(journal: Path, home: Path, line: bytes) -> tuple[list[_Row], list[str]]:
    """What a journal says, with absolute paths; a journal that speaks of other places is nobody's."""
    import json

    try:
        document = json.loads(line)
        rows = [
            _Row(**{k: os.path.normpath(home / v) if k in ("target", "new", "old") else v for k, v in one.items()})
            for one in document["files"]
        ]
        folders = [os.path.normpath(home / one) for one in document["folders"]]
        fits = all(_fits(row, home) for row in rows) and all(_is_inside(folder, home) for folder in folders)
    except (ValueError, KeyError, TypeError, AttributeError):
        fits = False
    if not fits:
        raise WriteError(f"{journal}: is not a journal of mgmigrate; remove it")
    return rows, folders


def _fits(row: _Row, home: Path) -> bool:
    own = all(
        _OWN.fullmatch(os.path.basename(one)) and os.path.dirname(one) == os.path.dirname(row.target)
        for one in (row.new, row.old)
    )
    return own and _is_inside(row.target, home)


def _is_inside(path: str, home: Path) -> bool:
    return Path(os.path.realpath(os.path.dirname(path))).is_relative_to(home) and os.path.basename(path) not in (
        "",
        "..",
    )


def _roll_back(home: Path, rows: Sequence[_Row], folders: Sequence[str]) -> None:
    """Every step may have happened already: an undoing that is killed is undone again."""
    for row in reversed(rows):
        if row.before is None:
            remove(row.target)
        elif os.path.lexists(row.old) and not (os.path.exists(row.target) and os.path.samefile(row.old, row.target)):
            os.replace(row.old, row.target)
        remove(row.old)
        remove(row.new)
    for folder in reversed(folders):
        try:
            os.rmdir(folder)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise
    remove(str(home / NAME))


def _clean_up(home: Path, rows: Sequence[_Row]) -> None:
    for row in rows:
        remove(row.old)
        remove(row.new)
    remove(str(home / NAME))


def _flush_folders(rows: Iterable[_Row]) -> None:
    for folder in dict.fromkeys(os.path.dirname(row.target) for row in rows):
        if os.path.isdir(folder):
            flush(folder)
