"""What a run does, written down at every optimizer step: samples, losses, gradients, parameters, buffers, decisions.

In: the session.  Out: hooks on optimizers, backward(), the wrappers and the scaler; one "step" line per optimizer step.
The program's arithmetic is not touched, apart from the seeds of a replica's forward.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
import torch.autograd
import torch.nn.utils
from torch.optim import optimizer as optimizers

from . import fingerprint
from .beside import Beside
from .determinism import changed, get_states, kept_states, pin, set_seeds
from .session import Call, Session

COLLECTIVES_MOST = 2000  # of one step
WATCHED_FORWARDS = 2  # of which it is noted whether they draw random numbers (dropout)

# Called after each recorded step, with the optimizer's number, its flat list of (name, parameter) and the samples of the step.
AfterStep = Callable[[int, list[tuple[str, Any]], int], None]


class Quiet(Protocol):
    """What looks at gradients element by element (`noise`)."""

    def look(self, number: int, parameters: list[Any]) -> None: ...

    def settle(self, number: int, parameters: list[Any]) -> dict[str, Any]: ...


def parameters_of(optimizer: Any) -> list[Any]:
    return [p for group in optimizer.param_groups for p in group["params"]]


class Book:
    """Names and numbers of optimizers and parameters; the optimizer's position is a parameter's identity."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.made: list[Any] = []  # optimizers in order of creation
        self.stepped: list[Any] = []  # optimizers in order of their first step
        self.announced: dict[int, list[str]] = {}

    def number(self, optimizer: Any) -> int:
        for i, known in enumerate(self.stepped):
            if known is optimizer:
                return i
        self.stepped.append(optimizer)
        return len(self.stepped) - 1

    def names(self) -> dict[int, str]:
        """id of a parameter -> its name, relative to the wrapped model it belongs to."""
        found: dict[int, str] = {}
        for wrap in self.session.wraps:
            for name, parameter in wrap.module.named_parameters():
                found.setdefault(id(parameter), name)
        return found

    def positions(self, optimizer: Any) -> list[tuple[str, Any]]:
        """The optimizer's parameters in order, named; announced once, and again when they change."""
        known, number = self.names(), self.number(optimizer)
        listed: list[tuple[str, Any]] = []
        owned = []
        for g, group in enumerate(optimizer.param_groups):
            for p, parameter in enumerate(group["params"]):
                owned.append(id(parameter) in known)
                listed.append((known.get(id(parameter), f"optimizer {number}, group {g}, parameter {p}"), parameter))
        signature = [f"{name} {tuple(p.shape)} {p.requires_grad}" for name, p in listed]
        if self.announced.get(number) != signature:
            self.announced[number] = signature
            self.session.record(
                "names",
                opt=number,
                names=[n for n, _ in listed],
                shapes=[list(p.shape) for _, p in listed],
                owned=owned,
                trained=[bool(p.requires_grad) for _, p in listed],
            )
        return listed

    def buffers(self) -> dict[str, Any]:
        """ "wrap number:name" -> buffer of the wrapped models."""
        return {
            f"{i}:{name}": buffer
            for i, wrap in enumerate(self.session.wraps)
            for name, buffer in wrap.module.named_buffers()
        }


def install(session: Session, book: Book, noise: Quiet, after_step: AfterStep, first_call: Callable[[], None]) -> None:
    _patch_optimizers(session, book, noise, after_step)
    _patch_backward(session)
    _patch_clipping(session)
    _patch_scaler(session)
    _patch_ddp(session, first_call)
    _patch_data_parallel(session, first_call)
    _patch_modules(session, first_call)
    _patch_collectives(session)


# ---------------------------------------------------------------- optimizer steps
def _patch_optimizers(session: Session, book: Book, noise: Quiet, after_step: AfterStep) -> None:
    init = optimizers.Optimizer.__init__
    gradients: dict[int, list[Any]] = {}

    def made(self: Any, *arguments: Any, **keywords: Any) -> None:
        init(self, *arguments, **keywords)
        book.made.append(self)

    def before(optimizer: Any, arguments: Any, keywords: Any) -> None:
        if session.foreign or session.ended:
            return
        begun = time.thread_time()
        closure = arguments[1:] or keywords.get("closure") is not None  # arguments[0] is the optimizer itself
        if not closure:
            gradients[id(optimizer)] = _gradients(optimizer)
            noise.look(book.number(optimizer), parameters_of(optimizer))
        session.hook_seconds += time.thread_time() - begun

    def after(optimizer: Any, arguments: Any, keywords: Any) -> None:
        if session.foreign or session.ended:
            return
        begun = time.thread_time()
        listed = book.positions(optimizer)
        # A closure hides the gradients from the first hook: they are still there after the step.
        grads = gradients.pop(id(optimizer), None)
        if grads is None:
            grads = _gradients(optimizer)
            noise.look(book.number(optimizer), parameters_of(optimizer))
        params = [fingerprint.describe(p) for _, p in listed]
        _settle(session)
        session.record(
            "step",
            k=session.step,
            opt=book.number(optimizer),
            cls=type(optimizer).__name__,
            lr=[_number(group.get("lr", 0.0)) for group in optimizer.param_groups],
            settings=[_settings(group) for group in optimizer.param_groups],
            losses=session.losses,
            calls=[call.dump() for call in session.calls],
            evals=[call.dump() for call in session.evaluations],
            read=session.read_samples,
            batches=session.batches,
            grad=grads,
            param=params,
            settled=noise.settle(book.number(optimizer), [p for _, p in listed]),
            buf={name: fingerprint.describe(b) for name, b in book.buffers().items() if b.is_floating_point()},
            sync=session.synchronised,
            collectives=session.collectives,
            clip=session.clips,
            scale=session.scales,
            seconds=time.perf_counter() - session.start,
        )
        rows = sum(chunk["n"] or 0 for call in session.calls for chunk in call.chunks)
        session.losses, session.calls, session.evaluations = [], [], []
        session.read_samples, session.batches = [], []
        session.clips, session.scales, session.candidates, session.collectives = [], [], [], []
        session.synchronised = session.delivered = 0
        number = book.number(optimizer)
        session.step += 1
        pin(session, "step", session.step)
        session.hook_seconds += time.thread_time() - begun
        after_step(number, listed, rows)

    optimizers.Optimizer.__init__ = made
    optimizers.register_optimizer_step_pre_hook(before)
    optimizers.register_optimizer_step_post_hook(after)


def _gradients(optimizer: Any) -> list[Any]:
    return [None if p.grad is None else fingerprint.describe(p.grad) for p in parameters_of(optimizer)]


def _number(value: Any) -> float:
    return float(value)


# What changes nothing in the arithmetic, or is the learning rate (which is compared on its own).
_NO_SETTINGS = {"params", "lr", "foreach", "fused", "capturable", "differentiable", "initial_lr", "max_lr", "min_lr"}


def _settings(group: dict[str, Any]) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in group.items()
        if name not in _NO_SETTINGS and isinstance(value, (bool, int, float, str, tuple, type(None)))
    }


def _settle(session: Session) -> None:
    """Calls with gradients that no backward() followed were evaluation (a loop without no_grad)."""
    session.evaluations.extend(session.candidates)
    session.candidates = []


# ---------------------------------------------------------------- losses
def _patch_backward(session: Session) -> None:
    original = torch.autograd.backward

    def backward(tensors: Any, grad_tensors: Any = None, *arguments: Any, **keywords: Any) -> None:
        # Inside another backward pass it belongs to a recomputed layer (reentrant checkpoint), not to a loss.
        if not session.foreign and not session.ended and torch._C._current_graph_task_id() == -1:
            _note_backward(session, tensors, grad_tensors)
        original(tensors, grad_tensors, *arguments, **keywords)

    torch.autograd.backward = backward


def _note_backward(session: Session, tensors: Any, weights: Any) -> None:
    roots = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    factors = [weights] if isinstance(weights, torch.Tensor) or weights is None else list(weights)
    with torch.no_grad():
        for root, factor in zip(roots, factors + [None] * len(roots), strict=False):
            value = root.detach().double() if factor is None else root.detach().double() * factor.detach().double()
            session.losses.append(float(value.sum()) if value.numel() else None)
    session.synchronised += any(getattr(wrap, "require_backward_grad_sync", False) for wrap in session.wraps)
    training = [call for call in session.candidates if call.training]
    for call in training or session.candidates:
        call.grad = True
        session.calls.append(call)
    if training:
        session.evaluations.extend(call for call in session.candidates if not call.training)
    session.candidates = []


def _patch_clipping(session: Session) -> None:
    """The norm before clipping: a threshold that is always reached would hide a wrong factor in the loss."""
    clip = torch.nn.utils.clip_grad_norm_

    def clip_grad_norm_(*arguments: Any, **keywords: Any) -> Any:
        norm = clip(*arguments, **keywords)
        if not session.foreign:
            session.clips.append(float(norm))
        return norm

    torch.nn.utils.clip_grad_norm_ = clip_grad_norm_
    torch.nn.utils.clip_grad.clip_grad_norm_ = clip_grad_norm_


def _patch_scaler(session: Session) -> None:
    """The loss scale after each update: it falls when a step was skipped, which no optimizer hook shows."""
    scaler = torch.amp.GradScaler
    update = scaler.update

    def patched(self: Any, *arguments: Any, **keywords: Any) -> None:
        update(self, *arguments, **keywords)
        if not session.foreign and self.is_enabled():
            session.scales.append(float(self.get_scale()))

    scaler.update = patched


# ---------------------------------------------------------------- calls of the wrapped model
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


_REPLICAS: dict[int, Replicas] = {}


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


def _patch_collectives(session: Session) -> None:
    """Which collective calls a rank makes, in order: all ranks have to make the same ones."""
    import torch.distributed as dist

    def noted(function: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def collective(*arguments: Any, **keywords: Any) -> Any:
            if not session.foreign and len(session.collectives) < COLLECTIVES_MOST:
                session.collectives.append(name)
            return function(*arguments, **keywords)

        return collective

    for name in (
        "all_reduce",
        "broadcast",
        "all_gather",
        "all_gather_into_tensor",
        "reduce",
        "reduce_scatter",
        "barrier",
    ):
        patched = noted(getattr(dist, name), name)
        setattr(dist, name, patched)
        setattr(dist.distributed_c10d, name, patched)
    wrapper = torch.nn.parallel.DistributedDataParallel
    wrapper._distributed_broadcast_coalesced = noted(wrapper._distributed_broadcast_coalesced, "broadcast of buffers")


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
