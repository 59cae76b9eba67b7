"""What a run shows and saves: printed numbers, logged scalars, files, the keys of checkpoints.

In: the session.  Out: "printed", "scalar", "saved" and "wrote" lines in the record.  A write that would leave the scratch
folder is refused (a check must not overwrite a user's checkpoint with that of a few steps); links into the user's project are
replaced by copies when they are written through.  Caches may be written to.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from typing import Any

import torch

from .session import Session

LINES_MOST, LINE_LENGTH = 3000, 400
KEYS_MOST = 4000
SYSTEM = ("/dev/", "/proc/", "/sys/")
TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class OutsideScratch(PermissionError):
    """The program writes to a place outside its working folder."""


def install(session: Session) -> None:
    sys.stdout, sys.stderr = Shown(session, sys.stdout), Shown(session, sys.stderr)
    guard = Guard(session)
    sys.addaudithook(guard.audit)
    _patch_save(session, guard)
    _patch_scalars(session)


# ---------------------------------------------------------------- printed lines
class Shown:
    """A text stream that passes everything on and notes the lines with numbers in them."""

    def __init__(self, session: Session, stream: Any) -> None:
        self._session, self._stream, self._pending = session, stream, ""
        self._busy = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        written = int(self._stream.write(text) or 0)
        if not self._busy and not self._session.foreign and not self._session.ended:
            self._busy = True
            try:
                self._take(str(text))
            finally:
                self._busy = False
        return written

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def _take(self, text: str) -> None:
        *lines, self._pending = (self._pending + text).split("\n")
        self._pending = self._pending[-4 * LINE_LENGTH :]
        session = self._session
        for line in lines:
            shown = TERMINAL_CODES.sub("", line.rstrip("\r").rsplit("\r", 1)[-1])[:LINE_LENGTH]
            if not any(c.isdigit() for c in shown):
                continue
            if session.ordinal("printed lines") < LINES_MOST:
                session.record("printed", line=shown, k=session.step, evaluated=bool(session.evaluations))


# ---------------------------------------------------------------- files
class Guard:
    """An audit hook on everything that opens, makes, moves or removes files."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.scratch = [os.path.realpath(session.settings.folder), os.path.realpath(tempfile.gettempdir())]
        self.work = os.path.realpath(session.settings.work)
        home = os.path.expanduser("~")
        caches = [os.path.join(home, ".cache")]
        caches += [os.environ[name] for name in ("XDG_CACHE_HOME", "TORCH_HOME", "HF_HOME") if os.environ.get(name)]
        self.caches = tuple(os.path.realpath(c) for c in caches)
        self._busy = False

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            writes = (isinstance(flags, int) and flags & WRITING) or (isinstance(mode, str) and mode.strip("rbtU"))
            if writes:
                self.enter(path, keep=not (isinstance(mode, str) and "w" in mode))
        elif event in ("os.mkdir", "os.remove", "os.rmdir", "os.truncate"):
            self.enter(arguments[0], keep=event == "os.truncate", opened=False)
        elif event in ("os.rename", "os.link", "os.symlink"):
            self.enter(arguments[1], keep=False, opened=event == "os.rename")
            if event == "os.rename":
                self.enter(arguments[0], keep=True, opened=False)

    def enter(self, path: Any, keep: bool, opened: bool = True) -> None:
        """The program is about to write to `path`."""
        if self._busy or isinstance(path, int) or not isinstance(path, (str, bytes, os.PathLike)):
            return
        self._busy = True
        try:
            self._enter(os.path.abspath(os.fsdecode(path)), keep, opened)
        finally:
            self._busy = False

    def _ours(self, path: str) -> bool:
        return any(_within(path, folder) for folder in self.scratch)

    def _enter(self, path: str, keep: bool, opened: bool) -> None:
        if path.startswith(SYSTEM):
            return
        folder = os.path.realpath(os.path.dirname(path))
        real = os.path.realpath(path)
        if _within(path, self.work) or _within(folder, self.work):
            if not self._ours(real):
                self._separate(
                    os.path.join(folder, os.path.basename(path)) if _within(folder, self.work) else path, keep
                )
            if opened and not self.session.foreign and not self.session.ended:
                name = os.path.relpath(path, self.work)
                if self.session.ordinal("wrote " + name) == 0:
                    self.session.record("wrote", file=name)
        elif not self._ours(real) and not any(_within(real, c) for c in self.caches):
            raise OutsideScratch(
                f"mgmigrate verify lets a program write into its working folder only, not to {path}: give it another path"
            )

    def _separate(self, path: str, keep: bool) -> None:
        """Replace the links on the way to `path`, which lead into the user's project, by copies."""
        parts = os.path.relpath(path, self.work).split(os.sep)
        place = self.work
        for i, part in enumerate(parts):
            place = os.path.join(place, part)
            if not os.path.islink(place):
                continue
            target = os.path.realpath(place)
            if self._ours(target):
                continue
            os.unlink(place)
            if i < len(parts) - 1 or os.path.isdir(target):
                os.mkdir(place)
                for name in os.listdir(target):
                    os.symlink(os.path.join(target, name), os.path.join(place, name))
            elif keep and os.path.exists(target):
                shutil.copyfile(target, place)


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + os.sep)


def _patch_save(session: Session, guard: Guard) -> None:
    save = torch.save

    def patched(obj: Any, f: Any, *arguments: Any, **keywords: Any) -> None:
        if isinstance(f, (str, os.PathLike)) and not session.foreign and not session.ended:
            guard.enter(f, keep=False)  # torch's own writer opens files unseen by the audit hook
            path = os.path.abspath(os.fspath(f))
            name = os.path.relpath(path, guard.work) if _within(path, guard.work) else path
            session.record("saved", file=name, keys=sorted(key_paths(obj))[:KEYS_MOST])
        save(obj, f, *arguments, **keywords)

    torch.save = patched
    torch.serialization.save = patched


def key_paths(value: Any, depth: int = 3) -> list[str]:
    """The keys of nested dictionaries, as paths; other things by their type."""
    if isinstance(value, torch.nn.Module):
        return [f"<{type(value).__name__}>"]
    if not isinstance(value, dict) or depth == 0:
        return []
    found = []
    for key, item in value.items():
        inner = key_paths(item, depth - 1)
        found += [f"{key}.{k}" for k in inner] if inner else [str(key)]
    return found


# ---------------------------------------------------------------- scalars
def _patch_scalars(session: Session) -> None:
    """Scalars given to TensorBoard, where the program's modules were imported before the fork."""
    module = sys.modules.get("torch.utils.tensorboard.writer")
    if module is None:
        return
    writer = module.SummaryWriter
    add_scalar = writer.add_scalar

    def patched(self: Any, tag: Any, scalar_value: Any, *arguments: Any, **keywords: Any) -> None:
        add_scalar(self, tag, scalar_value, *arguments, **keywords)
        if not session.foreign and not session.ended:
            session.record(
                "scalar", tag=str(tag), value=float(scalar_value), k=session.step, evaluated=bool(session.evaluations)
            )

    writer.add_scalar = patched
