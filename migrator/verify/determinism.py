"""Equal random numbers in both worlds: seeds that depend on what is drawn, not on how many draws came before.

In: the session.  Out: the three generators that programs use (torch, random, numpy) seeded by (place, step, sample,
replica).  The rank's *own* state is not lost: it is noted before the first seed that is set from here, and so is each seed of
the program, because ranks that draw alike, or unlike, are faults that pinned seeds would hide (`judge` looks for them).
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import sys
from collections.abc import Iterator
from typing import Any

import torch

from .session import Session

GENERATORS = ("torch", "random", "numpy")


def seed_number(*parts: Any) -> int:
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=7).digest(), "big")


def _numpy() -> Any:
    return sys.modules.get("numpy")


def set_seeds(*parts: Any) -> None:
    """Seed all three generators alike."""
    for name in GENERATORS:
        set_seed(name, *parts)


def set_seed(generator: str, *parts: Any) -> None:
    number = seed_number(*parts)
    if generator == "torch":
        torch.default_generator.manual_seed(number)
    elif generator == "random":
        _PLAIN_SEED(number)
    elif _numpy() is not None:
        _numpy_seed()(number % 2**32)


_PLAIN_SEED = random.seed


def _numpy_seed() -> Any:
    seed = _numpy().random.seed
    return getattr(seed, "__wrapped__", seed)


def get_states() -> tuple[Any, Any, Any]:
    numpy = _numpy()
    return torch.get_rng_state(), random.getstate(), numpy.random.get_state() if numpy else None


def set_states(states: tuple[Any, Any, Any]) -> None:
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    if states[2] is not None:
        _numpy().random.set_state(states[2])


@contextlib.contextmanager
def kept_states() -> Iterator[None]:
    """The generators come out as they went in."""
    states = get_states()
    try:
        yield
    finally:
        set_states(states)


def digest(generator: str) -> str:
    """A short name for the generator's present state."""
    if generator == "torch":
        data = torch.get_rng_state().numpy().tobytes()
    elif generator == "random":
        data = repr(random.getstate()).encode()
    else:
        data = repr(_numpy().random.get_state()).encode() if _numpy() else b""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def changed(before: tuple[Any, Any, Any]) -> list[str]:
    """The generators that were used since `before` was taken."""
    now = get_states()
    used = [] if torch.equal(before[0], now[0]) else ["torch"]
    if before[1] != now[1]:
        used.append("random")
    if before[2] is not None and repr(before[2]) != repr(now[2]):
        used.append("numpy")
    return used


def note_natural(session: Session) -> None:
    """Note this rank's own generators, once, before they are pinned for the first time."""
    if session.pinned or session.foreign:
        return
    session.pinned = True
    session.record("natural", **{name: digest(name) for name in GENERATORS})


def pin(session: Session, *parts: Any) -> None:
    """Set the program's generators to a state that depends on `parts` only; equal on all ranks."""
    note_natural(session)
    set_seeds(session.settings.seed, *parts)


def start(session: Session) -> None:
    """The state in which the program begins: rank 0 as the original, the others as an unseeded program would be."""
    set_seeds(session.settings.seed, "start", session.settings.rank)
    _watch_seeding(session)


def _watch_seeding(session: Session) -> None:
    """A program that seeds after the first pin decides anew whether its ranks draw alike."""

    def watched(generator: str, function: Any) -> Any:
        def seed(*arguments: Any, **keywords: Any) -> Any:
            result = function(*arguments, **keywords)
            # Inside a wrapped call a generated class seeds each rank's chunk, and takes it back.
            if not session.foreign and session.depth == 0:
                session.record("seed", generator=generator, value=repr(arguments)[:200])
            return result

        seed.__wrapped__ = function  # type: ignore[attr-defined]
        return seed

    torch.manual_seed = watched("torch", torch.manual_seed)
    torch.random.manual_seed = torch.manual_seed
    random.seed = watched("random", random.seed)
    import numpy

    numpy.random.seed = watched("numpy", numpy.random.seed)


class Stream:
    """A state of the three generators that lives beside the program's: samplers draw from it."""

    def __init__(self, session: Session, name: str, *parts: Any) -> None:
        self.used: list[str] = []  # generators that were drawn from
        with kept_states():
            set_seeds(session.settings.seed, name, *parts)
            self._states = get_states()

    @contextlib.contextmanager
    def drawn_from(self) -> Iterator[None]:
        outside = get_states()
        set_states(self._states)
        try:
            yield
        finally:
            if not self.used:
                self.used = changed(self._states)
            self._states = get_states()
            set_states(outside)
