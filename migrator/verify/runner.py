"""One process of a run: patches, then the program, then a last line in the record.

In: `RunSettings` and a socket to the fork server.  Out: the record file; the process ends by `os._exit` and runs no
clean-up of the program's (which would write its checkpoints).  The program is run under `__main__` as `python` would, from
its own source.
"""

from __future__ import annotations

import builtins
import getpass
import multiprocessing
import os
import runpy
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch._dynamo
import torch.distributed
import torch.utils.data

from . import (
    backward_draws,
    calls,
    determinism,
    draws,
    fakedata,
    noise,
    order,
    outputs,
    precision,
    record,
    resync,
    simcuda,
    simdist,
    simdp,
)
from .book import Book
from .session import Session
from .settings import RunSettings

AUTO_STEPS_AFTER_EPOCH = 2  # steps into the second epoch
AUTO_STEPS_LEAST, AUTO_STEPS_MOST = 4, 24
ENDED = b"E"


class AskedForInput(RuntimeError):
    """The program waits for somebody to type."""


def run(settings: RunSettings, server: socket.socket) -> NoReturn:
    """Run the program; returns to nobody."""
    code = 1
    session = None
    try:
        session = prepare(settings, server)
        execute(settings, session)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if code:
            print(error.code if not isinstance(error.code, int) else f"exit status {code}", file=sys.stderr)
            _report(session, error, code)
    except BaseException as error:
        traceback.print_exc()
        _report(session, error, 1)
    finally:
        if session is not None and not session.foreign:
            finish(session, early=True, code=code)
            _tell(server)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _report(session: Session | None, error: BaseException, code: int) -> None:
    if session is not None and not session.ended:
        frames = traceback.extract_tb(error.__traceback__)
        own = str(Path(__file__).parent)
        shown = [f for f in frames if not f.filename.startswith(own) and "runpy" not in f.filename]
        text = "".join(traceback.format_list(shown[-6:])) + "".join(traceback.format_exception_only(error))
        session.record("error", kind=type(error).__name__, message=str(error)[:2000], code=code, text=text[-6000:])


def _tell(server: socket.socket) -> None:
    try:
        server.sendall(ENDED)
    except OSError:
        os._exit(1)  # the fork server is gone: nobody waits for this run


def prepare(settings: RunSettings, server: socket.socket) -> Session:
    """Patch this process for its side and rank."""
    torch.set_num_threads(1)
    out = settings.record_path.open("w")
    devices = simcuda.install(settings.devices) if settings.simulate else None
    session = Session(settings=settings, devices=devices, out=out)
    session.record(
        "start", side=settings.side, rank=settings.rank, pid=session.pid, pads=settings.pads, cuts=settings.cuts
    )
    if devices is not None:
        simdp.install(devices, calls.session_replicas(session))
    simdist.install(devices, session.folder, settings.collective_timeout)
    order.install(session)
    draws.install(session)
    backward_draws.install(session)
    book = Book(session)

    def first_call() -> None:
        if session.ordinal("first call") == 0:
            resync.start(session, book)

    def after_step(number: int, listed: list[tuple[str, Any]], rows: int) -> None:
        resync.step(session, book, number, listed, rows)
        if _enough(session):
            finish(session, early=False, code=0)
            _tell(server)
            sys.stdout.flush()
            sys.stderr.flush()
            _rest(session)

    record.install(session, book, noise.Noise(session), after_step, first_call)
    if settings.float64:
        precision.install(session)
    if settings.fake_data:
        fakedata.install(settings.fake_data)
    _forbid_input()
    multiprocessing.set_start_method("fork", force=True)
    multiprocessing.set_start_method = lambda *_, **__: None
    return session


def _enough(session: Session) -> bool:
    wanted = session.settings.steps
    if wanted:
        return session.step >= wanted
    if session.step >= AUTO_STEPS_MOST:
        return True
    if not session.second_epoch:
        return False
    session.counters["steps in the second epoch"] += 1
    return session.step >= AUTO_STEPS_LEAST and session.counters["steps in the second epoch"] >= AUTO_STEPS_AFTER_EPOCH


def finish(session: Session, *, early: bool, code: int) -> None:
    """The last line of the record."""
    if session.ended or session.foreign:
        return
    session.ended = True
    census = session.devices.census if session.devices else {}
    session.record(
        "end",
        early=early,
        code=code,
        steps=session.step,
        census=[[what, index, count] for (what, index), count in sorted(census.items())],
        drawn=dict(session.drawn),
        counters=dict(session.counters),
        splitting=session.splitting,
        accelerate="accelerate" in sys.modules,
        evals=[call.dump() for call in [*session.evaluations, *session.candidates]],
        read=session.read_samples,
        hook_seconds=session.hook_seconds,
    )


def _rest(session: Session) -> NoReturn:
    """Wait for the fork server to end this process: a rank that left early would break its partners' connections."""
    if not session.after:
        os._exit(0)
    while True:
        time.sleep(1.0)


def _forbid_input() -> None:
    def ask(prompt: object = "", *_: Any, **__: Any) -> NoReturn:
        raise AskedForInput(f"the program asks for input: {str(prompt)[:200]!r}")

    builtins.input = ask
    getpass.getpass = ask

    class NoInput:
        """A terminal that nobody types at; everything but reading is the real one's."""

        def __init__(self, real: Any) -> None:
            self._real = real

        def __getattr__(self, name: str) -> Any:
            if name in ("read", "readline", "readlines", "__next__"):
                return ask
            return getattr(self._real, name)

        def __iter__(self) -> NoReturn:
            ask("sys.stdin")

    sys.stdin = NoInput(sys.stdin)


def execute(settings: RunSettings, session: Session) -> None:
    """The prelude, then the program as `__main__`."""
    os.chdir(settings.cwd)
    if settings.prelude:
        exec(compile(settings.prelude, "<prelude>", "exec"), {"__name__": "__prelude__", "settings": settings})
    outputs.install(session)
    determinism.start(session)
    if settings.module is not None:
        sys.argv = [settings.module, *settings.arguments]
        sys.path.insert(0, settings.entry)
        runpy.run_module(settings.module, run_name="__main__", alter_sys=True)
        return
    sys.argv = [settings.entry, *settings.arguments]
    sys.path.insert(0, str(Path(settings.entry).parent))
    runpy.run_path(settings.entry, run_name="__main__")
