"""How long the stages of a run take, for `--verbose`.

`with stage("rules"):` counts where somebody has called `start`, and costs next to nothing where nobody has.  Of stages inside
each other the inner one's time is its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

_seconds: dict[str, float] | None = None
_inside: list[float] = []  # for each open stage, the seconds of the stages in it


def start() -> None:
    """Count from now on."""
    global _seconds
    _seconds = {}
    _inside.clear()


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Count what happens inside as a stage of this name."""
    if _seconds is None:
        yield
        return
    begin = time.perf_counter()
    _inside.append(0.0)
    try:
        yield
    finally:
        whole = time.perf_counter() - begin
        _seconds[name] = _seconds.get(name, 0.0) + whole - _inside.pop()
        if _inside:
            _inside[-1] += whole


def taken() -> dict[str, float]:
    """Seconds of each stage, in the order in which they first came."""
    return dict(_seconds or {})
