"""Distances of fingerprints.  Apart from `fingerprint`, so that comparing needs no torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def distance(a: Sequence[float], b: Sequence[float]) -> float:
    """Estimate of ||a - b|| from [norm, projections]; infinite if only one of them is finite."""
    if not all(math.isfinite(x) for x in (*a, *b)):
        return 0.0 if repr(list(a)) == repr(list(b)) else math.inf
    squares = [(x - y) ** 2 for x, y in zip(a[1:], b[1:], strict=True)]
    return max(math.sqrt(sum(squares) / len(squares)), abs(a[0] - b[0]))


def relative(a: Sequence[float] | None, b: Sequence[float] | None) -> float:
    """||a - b|| / max(||a||, ||b||), estimated; None stands for zeros."""
    zero = [0.0, 0.0, 0.0]
    a, b = a or zero, b or zero
    apart = distance(a, b)
    size = max(a[0], b[0])
    return 0.0 if apart == 0.0 else apart / size if size > 0 else math.inf


def worst_of_lists(a: Sequence[Sequence[Any]], b: Sequence[Sequence[Any]]) -> float:
    """The largest relative difference of parameters in groups, in the same order."""
    worst = 0.0
    for group_a, group_b in zip(a, b, strict=False):
        for x, y in zip(group_a, group_b, strict=False):
            worst = max(worst, relative(x, y))
    return worst
