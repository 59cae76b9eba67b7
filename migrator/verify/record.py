"""What a run does, written down at every optimizer step: samples, losses, gradients, parameters, buffers, decisions.

In: the session.  Out: hooks on optimizers, backward(), the wrappers and the scaler; one "step" line per optimizer step.
The program's arithmetic is not touched, apart from the seeds of a replica's forward.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.autograd
import torch.nn.utils
from torch.optim import optimizer as optimizers

from . import calls, fingerprint
from .book import Book, parameters_of
from .determinism import pin
from .session import Session

COLLECTIVES_MOST = 2000  # of one step

# Called after each recorded step, with the optimizer's number, its flat list of (name, parameter) and the samples of the step.
AfterStep = Callable[[int, list[tuple[str, Any]], int], None]


class Quiet(Protocol):
    """What looks at gradients element by element (`noise`)."""

    def look(self, number: int, parameters: list[Any]) -> None: ...

    def settle(self, number: int, parameters: list[Any]) -> dict[str, Any]: ...


def install(session: Session, book: Book, noise: Quiet, after_step: AfterStep, first_call: Callable[[], None]) -> None:
    _patch_optimizers(session, book, noise, after_step)
    _patch_backward(session)
    _patch_clipping(session)
    _patch_scaler(session)
    calls.install(session, first_call)
    _patch_collectives(session)


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
