"""Distance of two fingerprints.  Apart from `fingerprint`, so that comparing needs no torch."""

from __future__ import annotations

import math
from collections.abc import Sequence


def distance(a: Sequence[float], b: Sequence[float]) -> float:
    """Estimate of ||a - b|| from [norm, projections]; infinite if only one of them is finite."""
    if not all(math.isfinite(x) for x in (*a, *b)):
        return 0.0 if repr(list(a)) == repr(list(b)) else math.inf
    squares = [(x - y) ** 2 for x, y in zip(a[1:], b[1:], strict=True)]
    return max(math.sqrt(sum(squares) / len(squares)), abs(a[0] - b[0]))
