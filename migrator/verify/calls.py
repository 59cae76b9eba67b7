"""Calls of the wrapped models, written down: who is called, with which rows, and under which seeds.

In: the session.  Out: patched wrappers (DataParallel, DistributedDataParallel, generated classes that split the batch) and modules;
each call that a `backward()` may follow is one of the session's candidates.  The arithmetic is not touched, apart from the seeds of a
replica's forward.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import fingerprint
from .beside import Beside
from .determinism import changed, get_states, kept_states, pin, set_seeds
from .session import Call, Session

WATCHED_FORWARDS = 2  # of which it is noted whether they draw random numbers (dropout)
_REPLICAS: dict[int, Replicas] = {}


def install(session: Session, first_call: Callable[[], None]) -> None:
    """Patch the wrappers and `Module.__call__`; `first_call` is called before the first one runs."""
    _patch_ddp(session, first_call)
    _patch_data_parallel(session, first_call)
    _patch_modules(session, first_call)


class Replicas:
    """Links a DataParallel forward to the replicas that it starts: which call they belong to, and their seeds."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.call: Call | None = None
        self.number: int | None = None
        self.dim = 0
        self.around = threading.local()  # how many replicas the calls around this one have
        self.beside = Beside(session)

    @contextlib.contextmanager
    def __call__(self, replica: int, count: int, inputs: Any, keywords: Any) -> Iterator[None]:
        around: list[int] = self.around.__dict__.setdefault("counts", [])
        if any(number > 1 for number in around):
            self.session.counters["replicas inside replicas"] += 1
        elif self.call is not None and not self.session.foreign:
            if around and replica == 0:
                self.call.chunks.pop()  # the one replica around this one saw the same rows
            self.call.chunks.append(fingerprint.chunk(inputs, keywords, self.dim))
        around.append(count)
        try:
            with _seeded(self.session, self.number, replica):
                yield
                self.beside.keep(inputs, self.dim)
        finally:
            around.pop()


def session_replicas(session: Session) -> Replicas:
    if id(session) not in _REPLICAS:
        _REPLICAS[id(session)] = Replicas(session)
    return _REPLICAS[id(session)]


@contextlib.contextmanager
def replicas_of(session: Session, wrap: Any, call: Call) -> Iterator[None]:
    """The replicas that are started in here belong to this call."""
    replicas = session_replicas(session)
    replicas.call, replicas.number, replicas.dim = call, _next_forward(session, call), getattr(wrap, "dim", 0)
    replicas.beside.begin(wrap, replicas.number is not None)
    try:
        yield
    finally:
        replicas.call = replicas.number = None


def add_wrap(session: Session, wrap: Any, kind: str, device_ids: list[Any]) -> None:
    if session.foreign:
        return
    session.wraps.append(wrap)
    session.record(
        "wrap",
        kind=kind,
        cls=type(wrap).__name__,
        model=type(wrap.module).__name__,
        devices=[int(d) for d in device_ids if isinstance(d, int)],
        parameters=sum(p.numel() for p in wrap.module.parameters()),
    )
    pin(session, "wrap", len(session.wraps))  # programs without a loader draw their first batch from here


@contextlib.contextmanager
def _wrapped(session: Session, call: Call | None) -> Iterator[None]:
    session.depth += 1
    try:
        yield
    finally:
        session.depth -= 1
        if call is not None and session.depth == 0:
            (session.candidates if call.grad else session.evaluations).append(call)


def _open_call(session: Session, wrap: Any, bare: bool) -> Call | None:
    """A new call, unless it is inside another one."""
    if session.depth or session.foreign or session.ended:
        return None
    grad = torch.is_grad_enabled()
    number = next((i for i, known in enumerate(session.wraps) if known is wrap), 0)
    return Call(number, bare, bool(wrap.training), grad, source=session.latest_batch if grad else None)


def _seeded(session: Session, number: int | None, replica: int) -> contextlib.AbstractContextManager[None]:
    """The generators of one replica's forward; the program's own come back afterwards."""

    @contextlib.contextmanager
    def context() -> Iterator[None]:
        with kept_states():
            set_seeds(session.settings.seed, "forward", number, replica)
            seeded = get_states() if number is not None and number < WATCHED_FORWARDS else None
            place = session.place
            former = place.number, place.replica, place.functions
            place.number, place.replica, place.functions = number, replica, 0
            try:
                yield
            finally:
                place.number, place.replica, place.functions = former
            if seeded is not None and changed(seeded):
                session.counters["drawing forwards"] += 1

    return contextlib.nullcontext() if number is None else context()


def _next_forward(session: Session, call: Call | None) -> int | None:
    if call is None or not (call.training and call.grad):
        return None
    session.forwards += 1
    return session.forwards - 1


def _patch_data_parallel(session: Session, first_call: Callable[[], None]) -> None:
    wrapper = torch.nn.DataParallel
    init, forward = wrapper.__init__, wrapper.forward

    def patched_init(self: Any, *arguments: Any, **keywords: Any) -> None:
        init(self, *arguments, **keywords)
        add_wrap(session, self, "DataParallel", list(self.device_ids))

    def patched_forward(self: Any, *inputs: Any, **keywords: Any) -> Any:
        call = _open_call(session, self, bare=False)
        if call is None:
            return forward(self, *inputs, **keywords)
        first_call()
        inputs, keywords = as_double(session, inputs), as_double(session, keywords)
        with replicas_of(session, self, call), _wrapped(session, call):
            return forward(self, *inputs, **keywords)

    wrapper.__init__, wrapper.forward = patched_init, patched_forward


def _patch_ddp(session: Session, first_call: Callable[[], None]) -> None:
    wrapper = torch.nn.parallel.DistributedDataParallel
    init, forward = wrapper.__init__, wrapper.forward

    def patched_init(self: Any, *arguments: Any, **keywords: Any) -> None:
        init(self, *arguments, **keywords)
        add_wrap(session, self, "DistributedDataParallel", [])

    def patched_forward(self: Any, *inputs: Any, **keywords: Any) -> Any:
        call = _open_call(session, self, bare=False)
        if call is None:
            return forward(self, *inputs, **keywords)
        first_call()
        inputs, keywords = as_double(session, inputs), as_double(session, keywords)
        call.chunks.append(fingerprint.chunk(inputs, keywords))
        with _wrapped(session, call), _seeded(session, _next_forward(session, call), session.settings.rank):
            return forward(self, *inputs, **keywords)

    wrapper.__init__, wrapper.forward = patched_init, patched_forward


def _patch_modules(session: Session, first_call: Callable[[], None]) -> None:
    """Two kinds of calls that no wrapper's forward shows: classes that split the batch, and bare models."""
    module = torch.nn.Module
    call_module = module.__call__

    def defined(kind: type[Any], /, **keywords: Any) -> None:
        super(module, kind).__init_subclass__(**keywords)
        if kind.__dict__.get("splits_batch"):
            _patch_splitter(session, kind, first_call)

    wrappers = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
    known = {wrapper.forward for wrapper in wrappers}

    def patched_call(self: Any, *inputs: Any, **keywords: Any) -> Any:
        if session.depth == 0 and session.wraps:
            if isinstance(self, wrappers) and type(self).forward not in known:
                return overridden(self, inputs, keywords)
            bared = next((wrap for wrap in session.wraps if wrap.module is self), None)
            bared = bared or evaluated_alone(self)
            if bared is not None and not any(wrap is self for wrap in session.wraps):
                return bare(bared, self, inputs, keywords)
        return call_module(self, *inputs, **keywords)

    def evaluated_alone(self: Any) -> Any:
        """The wrap of a model's kind, for one that is evaluated without a wrapper: read back, say, and wrapped by the original."""
        if self.training or torch.is_grad_enabled() or any(wrap is self for wrap in session.wraps):
            return None
        return next((wrap for wrap in session.wraps if type(wrap.module) is type(self)), None)

    def overridden(self: Any, inputs: Any, keywords: Any) -> Any:
        """A wrapper class of the program's own, with a forward of its own."""
        call = _open_call(session, self, bare=False)
        if call is None:
            return call_module(self, *inputs, **keywords)
        first_call()
        if isinstance(self, wrappers[0]):
            with replicas_of(session, self, call), _wrapped(session, call):
                return call_module(self, *inputs, **keywords)
        call.chunks.append(fingerprint.chunk(inputs, keywords))
        with _wrapped(session, call), _seeded(session, _next_forward(session, call), session.settings.rank):
            return call_module(self, *inputs, **keywords)

    def bare(wrap: Any, self: Any, inputs: Any, keywords: Any) -> Any:
        call = _open_call(session, wrap, bare=True)
        if call is None:
            return call_module(self, *inputs, **keywords)
        call.training = bool(self.training)
        call.chunks.append(fingerprint.chunk(inputs, keywords))
        with _wrapped(session, call):
            return call_module(self, *inputs, **keywords)

    module.__init_subclass__, module.__call__ = classmethod(defined), patched_call


def _patch_splitter(session: Session, kind: Any, first_call: Callable[[], None]) -> None:
    """A generated class that splits the batch at the call: its chunk is what a replica of DataParallel was given."""
    init, forward, run = kind.__init__, kind.forward, kind._run_replica
    state: dict[str, Any] = {"call": None, "number": None}

    def patched_init(self: Any, *arguments: Any, **keywords: Any) -> None:
        session.splitting = True
        init(self, *arguments, **keywords)
        add_wrap(session, self, "split at the call", [])

    def patched_forward(self: Any, *inputs: Any, **keywords: Any) -> Any:
        call = _open_call(session, self, bare=False)
        if call is None:
            return forward(self, *inputs, **keywords)
        first_call()
        inputs, keywords = as_double(session, inputs), as_double(session, keywords)
        state["call"], state["number"] = call, _next_forward(session, call)
        try:
            with _wrapped(session, call):
                return forward(self, *inputs, **keywords)
        finally:
            state["call"] = state["number"] = None

    def patched_run(self: Any, replica: Any, inputs: Any, keywords: Any) -> Any:
        if state["call"] is not None:
            state["call"].chunks.append(fingerprint.chunk(inputs, keywords, getattr(self, "dim", 0)))
        with _seeded(session, state["number"], session.settings.rank):
            return run(self, replica, inputs, keywords)

    kind.__init__, kind.forward, kind._run_replica = patched_init, patched_forward, patched_run


def as_double(session: Session, value: Any) -> Any:
    """In float64 mode: the same nest with its float32 tensors in float64."""
    if not session.settings.float64:
        return value
    if isinstance(value, torch.Tensor):
        return value.double() if value.dtype == torch.float32 else value
    if isinstance(value, dict):
        for key in list(value):
            value[key] = as_double(session, value[key])
        return value
    if isinstance(value, list):
        return [as_double(session, x) for x in value]
    if isinstance(value, tuple):
        parts = [as_double(session, x) for x in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value
