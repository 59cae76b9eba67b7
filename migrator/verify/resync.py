"""Each step a test of its own: the converted program continues from the original's parameters after every step.

In: the session and the step that was just recorded.  Out, on the original's side: one file with the stepped parameters and
the buffers per step, and one with the initial ones; on the converted side: those values are taken over after they were
compared.  Only the optimizer that stepped, and only buffers of the models that own its parameters, are overwritten: another
model's graph may be pending.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch

from . import fingerprint
from .book import Book, parameters_of
from .matching import match_names
from .session import Session


def _path(session: Session, name: str) -> Path:
    return session.folder / "states" / f"{name}.pt"


def save(session: Session, name: str, value: Any) -> None:
    path = _path(session, name)
    scratch = path.with_suffix(".new")
    torch.save(value, scratch)
    scratch.replace(path)


def load(session: Session, name: str) -> Any:
    path = _path(session, name)
    return torch.load(path, mmap=True, weights_only=True) if path.exists() else None


def start(session: Session, book: Book) -> None:
    """At the first call of a wrapped model: both sides begin with the original's values."""
    optimizers = book.made
    state = {
        "parameters": [[p.detach().clone() for p in parameters_of(o)] for o in optimizers],
        "buffers": {n: b.detach().clone() for n, b in book.buffers().items()},
    }
    session.record(
        "init",
        param=[[fingerprint.describe(p) for p in parameters_of(o)] for o in optimizers],
        buf={n: fingerprint.describe(b) for n, b in book.buffers().items() if b.is_floating_point()},
    )
    if not session.after:
        save(session, "init", state)
        return
    wanted = load(session, "init")
    if wanted is None:
        return
    taken = 0
    for optimizer, values in zip(optimizers, wanted["parameters"], strict=False):
        taken += _take(parameters_of(optimizer), values)
    _take_buffers(book.buffers(), wanted["buffers"])
    session.record("started", loaded=taken)


def _take(parameters: list[Any], values: list[Any]) -> int:
    """Copy values into parameters where they differ; nothing at all when the shapes do not fit."""
    if [p.shape for p in parameters] != [v.shape for v in values]:
        return 0
    taken = 0
    with torch.no_grad():
        for parameter, value in zip(parameters, values, strict=True):
            if not torch.equal(parameter, value):
                parameter.copy_(value)
                taken += 1
    return taken


def _take_buffers(buffers: dict[str, Any], values: dict[str, Any]) -> None:
    matched = match_names(list(values), list(buffers))
    with torch.no_grad():
        for theirs, ours in matched.items():
            buffer, value = buffers[ours], values[theirs]
            if buffer.shape == value.shape and not torch.equal(buffer, value):
                buffer.copy_(value)


def step(session: Session, book: Book, number: int, listed: list[tuple[str, Any]], rows: int) -> None:
    """After the step that has the number session.step - 1, in which the wrapped model was called with `rows` samples."""
    settings = session.settings
    uneven = settings.cuts or (settings.pads and rows % settings.devices > 0)  # what is cut off is known afterwards
    free = settings.free
    if free and not (settings.pads or settings.cuts):
        return
    name = f"step{session.step - 1}"
    parameters = [p for _, p in listed]
    if not session.after:
        if free and not uneven:
            return
        state: dict[str, Any] = {
            "parameters": [p.detach() for p in parameters],
            "buffers": {n: b.detach() for n, b in book.buffers().items()},
        }
        if uneven:
            state["optimizer"], state["rows"] = book.stepped[number].state_dict()["state"], rows
        save(session, name, state)
        return
    wanted = load(session, name)
    if wanted is None:
        return
    if rows * session.settings.world > wanted.get("rows", rows * session.settings.world):
        # Samples were repeated to divide the batch: what the step made of them must not reach the next one.
        optimizer = book.stepped[number]
        own = optimizer.state_dict()
        optimizer.load_state_dict({**own, "state": copy.deepcopy(wanted["optimizer"])})
    elif free:
        return
    _take(parameters, wanted["parameters"])
    stepped = {id(p) for p in parameters}
    mine = {
        f"{i}:{n}": b
        for i, wrap in enumerate(session.wraps)
        if any(id(p) in stepped for p in wrap.module.parameters())
        for n, b in wrap.module.named_buffers()
    }
    _take_buffers(mine, wanted["buffers"])
