"""The fork server: torch is imported once, each run is a fork in a session and a terminal of its own.

In: one JSON line per command ("run" with its processes and limits, "cancel").  Out: one JSON line per event ("ready",
"ended", "exit", "done").  When a run is over, or the other end of the pipe is closed, nothing that was started here is left:
process groups are killed, and so is every process that descends from this one (orphans are handed to it).
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import io
import json
import os
import pty
import resource
import selectors
import shutil
import signal
import socket
import struct
import sys
import tempfile
import termios
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from . import runner
from .settings import SCRATCH, SHORT_SCRATCH, RunSettings

TICK = 0.05
LOG_LIMIT = 4 << 20  # bytes of output that are kept of one process
TERMINAL = (40, 120)
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


@dataclass(slots=True)
class Child:
    index: int
    pid: int
    terminal: int
    status: socket.socket
    log: Any
    written: int = 0
    ended: bool = False  # took its steps, or the program is over
    code: int | None = None
    cpu: float = 0.0


@dataclass(slots=True)
class Server:
    commands: int
    answers: int
    pending: bytes = b""
    queue: list[dict[str, Any]] = field(default_factory=list)
    folders: set[Path] = field(default_factory=set)  # scratch folders of the runs
    closed: bool = False
    cancelled: bool = False

    def answer(self, event: str, **values: Any) -> None:
        try:
            os.write(self.answers, (json.dumps({"event": event, **values}) + "\n").encode())
        except OSError:
            self.closed = True  # nobody listens: the loop ends and cleans up

    def read_commands(self) -> None:
        data = os.read(self.commands, 1 << 16)
        if not data:
            self.closed = True
        *lines, self.pending = (self.pending + data).split(b"\n")
        for line in lines:
            command = json.loads(line)
            if command["op"] == "cancel":
                self.cancelled = True
            else:
                self.queue.append(command)


def serve(commands: int, answers: int) -> None:
    """Run commands until the pipe is closed."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    server = Server(commands, answers)
    server.answer("ready", pid=os.getpid())
    try:
        while not server.closed:
            if server.queue:
                run(server, server.queue.pop(0))
            else:
                server.read_commands()
    finally:
        end_descendants()
        _remove_left_over(server.folders)


def _remove_left_over(folders: set[Path]) -> None:
    """Scratch folders of a check that was killed; one that ended in peace, or keeps its folder, has left none."""
    for folder in folders:
        if folder.name.startswith(SCRATCH) and folder.exists():
            shutil.rmtree((folder / "tmp").resolve(), ignore_errors=True)
            shutil.rmtree(folder, ignore_errors=True)
    own = Path(tempfile.gettempdir())
    if own.name.startswith(SHORT_SCRATCH):
        shutil.rmtree(own, ignore_errors=True)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def run(server: Server, command: dict[str, Any]) -> None:
    """One run: start its processes, watch them, end them."""
    begun = time.monotonic()
    server.cancelled = False
    processes = [(RunSettings.load(p["settings"]), p["environment"]) for p in command["processes"]]
    server.folders.update(Path(settings.folder) for settings, _ in processes)
    children = [start(i, settings, environment) for i, (settings, environment) in enumerate(processes)]
    killed: list[int] = []
    timed_out = False
    deadline = begun + command["timeout"]
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(server.commands, selectors.EVENT_READ, None)
            for child in children:
                selector.register(child.terminal, selectors.EVENT_READ, child)
                selector.register(child.status, selectors.EVENT_READ, child)
            while any(child.code is None and not child.ended for child in children):
                watch(server, selector, children)
                if server.closed or server.cancelled:
                    break
                if time.monotonic() > deadline:
                    timed_out = True
                    break
                over = [child for child in children if child.ended or child.code is not None]
                if over:
                    # The others get some more seconds: one that waits for a partner that left waits in vain.
                    deadline = min(deadline, time.monotonic() + command["grace"])
                    command["grace"] = float("inf")
            drain(selector, children)
    finally:
        for child in children:
            if child.code is None and not child.ended:
                killed.append(child.index)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
        end_descendants()
        for child in children:
            reap(server, child, block=True)
            child.log.close()
            os.close(child.terminal)
            child.status.close()
    server.answer("done", timed_out=timed_out, killed=killed, wall=time.monotonic() - begun, peak=_peak())


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def start(index: int, settings: RunSettings, environment: dict[str, str]) -> Child:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *TERMINAL, 0, 0))
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(settings, environment, master, slave, theirs, parent)
    os.close(slave)
    theirs.close()
    os.set_blocking(master, False)
    ours.setblocking(False)
    return Child(index, pid, master, ours, Path(settings.log_path).open("wb"))


def _become(
    settings: RunSettings, environment: dict[str, str], master: int, slave: int, status: socket.socket, parent: int
) -> NoReturn:
    """The child's side of the fork: session, terminal, environment, then the program."""
    try:
        os.setsid()
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for target in (0, 1, 2):
            os.dup2(slave, target)
        os.close(master)
        os.close(slave)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stdin = io.TextIOWrapper(os.fdopen(0, "rb", closefd=False), encoding="utf-8", errors="replace")
        sys.stdout = _text(1)
        sys.stderr = _text(2)
        sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
        os.environ.update(environment)
        tempfile.tempdir = environment.get("TMPDIR")  # the server may have asked for it already
    except BaseException:
        os._exit(1)
    runner.run(settings, status)


def _text(number: int) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        os.fdopen(number, "wb", closefd=False), encoding="utf-8", errors="replace", line_buffering=True
    )


def watch(server: Server, selector: selectors.BaseSelector, children: list[Child]) -> None:
    """Wait for at most one tick: output, ends, exits, commands."""
    for key, _ in selector.select(TICK):
        if key.data is None:
            server.read_commands()
        elif key.fd == key.data.terminal:
            if not copy_output(key.data):
                selector.unregister(key.fd)
        else:
            if _received(key.data.status):
                key.data.ended = True
                server.answer("ended", index=key.data.index)
            selector.unregister(key.fileobj)
    for child in children:
        reap(server, child)


def _received(status: socket.socket) -> bool:
    try:
        return status.recv(1) == runner.ENDED
    except OSError:
        return False


def copy_output(child: Child) -> bool:
    """Move what the process printed into its log; False when its terminal is closed."""
    try:
        data = os.read(child.terminal, 1 << 16)
    except BlockingIOError:
        return True
    except OSError:
        return False
    if child.written < LOG_LIMIT:
        child.log.write(data)
        child.log.flush()
        child.written += len(data)
        if child.written >= LOG_LIMIT:
            child.log.write(b"\n[the rest of the output is not kept]\n")
    return bool(data)


def drain(selector: selectors.BaseSelector, children: list[Child]) -> None:
    """What is still in the terminals; bounded, because a process that is about to be killed may print on."""
    for child in children:
        for _ in range(64):
            before = child.written
            if not copy_output(child) or child.written == before:
                break


def reap(server: Server, child: Child, block: bool = False) -> None:
    if child.code is not None:
        return
    limit = time.monotonic() + 5.0
    while True:
        try:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        except ChildProcessError:
            pid, status, usage = child.pid, 0, None
        if pid or not block or time.monotonic() > limit:
            break
        time.sleep(0.01)
    if pid:
        child.code = os.waitstatus_to_exitcode(status)
        child.cpu = usage.ru_utime + usage.ru_stime if usage else 0.0
        server.answer("exit", index=child.index, code=child.code, cpu=child.cpu, ended=child.ended)


def descendants() -> list[int]:
    """Processes below this one, nearest first; needs /proc (elsewhere the killed process groups have to do)."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*") if Path("/proc/self/stat").exists() else ():
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if fields[0] != "Z":
                parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, level = [], [os.getpid()]
    while level:
        level = [child for parent in level for child in parents.get(parent, [])]
        found.extend(level)
    return found


def end_descendants(seconds: float = 5.0) -> None:
    """Kill everything below this process, also what the program started and what left its process group."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        left = descendants()
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
