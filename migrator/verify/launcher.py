"""The parent's end of the fork server: start it, have runs done, and leave nothing behind.

In: process settings and limits.  Out: how each process of a run ended.  Never imports torch; every wait ends; closing the
server (also by Ctrl-C, also when this process dies) ends everything that it started.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .settings import SHORT_SCRATCH, RunSettings

START_SECONDS = 180.0
CLOSE_SECONDS = 15.0
POLL = 0.1


class ServerFailed(RuntimeError):
    """The fork server could not start, or died."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How one process ended."""

    code: int
    cpu: float  # seconds
    reached: bool  # it said itself that it was done (and was then ended)


@dataclass(frozen=True, slots=True)
class Outcome:
    processes: tuple[Ended, ...]
    timed_out: bool
    killed: tuple[int, ...]  # processes that had to be ended
    wall: float
    peak: int  # KiB of the fork server

    @property
    def cpu(self) -> float:
        return sum(p.cpu for p in self.processes)


@dataclass(slots=True)
class ForkServer:
    """One interpreter that has imported torch; use as a context manager, for any number of runs."""

    python: str = sys.executable
    preload: Sequence[str] = ("numpy",)
    cpu: float = field(default=0.0, init=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _pending: bytes = field(default=b"", init=False)
    _folder: str = field(default="", init=False)  # what torch writes when it is imported

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start the interpreter, unless it runs."""
        if self._process is not None:
            if self._process.poll() is None:
                return
            self.close()
        self._folder = tempfile.mkdtemp(prefix=SHORT_SCRATCH)
        environment = {
            **os.environ,
            "TMPDIR": self._folder,
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        self._pending = b""
        self._process = subprocess.Popen(
            [self.python, str(Path(__file__).parent / "server.py"), *self.preload],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        event = self._event(time.monotonic() + START_SECONDS)
        if event["event"] != "ready":
            self.close()
            raise ServerFailed(event.get("error", "the fork server did not start"))

    def run(
        self,
        processes: Sequence[tuple[RunSettings, Mapping[str, str]]],
        timeout: float,
        grace: float,
        watch: Callable[[], None] | None = None,
    ) -> Outcome:
        """Have the processes run together; `grace` seconds after the first of them is done the others are ended."""
        self.start()
        command = {
            "op": "run",
            "timeout": timeout,
            "grace": grace,
            "processes": [{"settings": s.dump(), "environment": dict(e)} for s, e in processes],
        }
        self._send(command)
        codes: dict[int, Ended] = {}
        # The server keeps to the time-out; this one is for a server that hangs.
        limit = time.monotonic() + timeout + grace + CLOSE_SECONDS * 2
        while True:
            event = self._event(limit, watch)
            if event["event"] == "exit":
                codes[event["index"]] = Ended(event["code"], event["cpu"], event["ended"])
            elif event["event"] == "done":
                ended = tuple(codes.get(i, Ended(-9, 0.0, False)) for i in range(len(processes)))
                outcome = Outcome(ended, event["timed_out"], tuple(event["killed"]), event["wall"], event["peak"])
                self.cpu += outcome.cpu
                return outcome

    def close(self) -> None:
        """Close the pipe: the server ends everything it started, then itself."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            self._end(process)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        try:
            process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(CLOSE_SECONDS)

    def _send(self, command: dict[str, Any]) -> None:
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write((json.dumps(command) + "\n").encode())
            self._process.stdin.flush()
        except OSError as error:
            self.close()
            raise ServerFailed("the fork server is gone") from error

    def _event(self, limit: float, watch: Callable[[], None] | None = None) -> dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        number = self._process.stdout.fileno()
        while b"\n" not in self._pending:
            if time.monotonic() > limit:
                self.close()
                raise ServerFailed("the fork server does not answer")
            ready, _, _ = select.select([number], [], [], POLL)
            if watch is not None:
                watch()
            if ready:
                data = os.read(number, 1 << 16)
                if not data:
                    code = self._process.wait(CLOSE_SECONDS)
                    self.close()
                    raise ServerFailed(f"the fork server ended with code {code}")
                self._pending += data
        line, self._pending = self._pending.split(b"\n", 1)
        event: dict[str, Any] = json.loads(line)
        return event
