"""The rows of a step's calls of the wrapped model: how many, which, and what repeats or fills up batches that do not divide.

In: calls as records hold them, of the original and of each rank.  Out: numbers of rows, or whether they are the same samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .matching import count_common

FILLED_UP = "the last batch of an epoch is filled up with samples from its beginning"


def rows_of_calls(calls: Sequence[dict[str, Any]]) -> int:
    """Samples in all these calls."""
    return sum(chunk["n"] or 0 for call in calls for chunk in call["chunks"])


def without_idle(calls: Sequence[dict[str, Any]], their: Sequence[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """A rank beyond the replicas that the original used may run a dummy row: it counts for nothing."""
    kept = []
    for r, own in enumerate(their):
        kept.append([c for i, c in enumerate(own) if not (i < len(calls) and r >= max(1, len(calls[i]["chunks"])))])
    return kept


def near(rows: Sequence[float]) -> float:
    """How far the numbers of one sample may lie apart."""
    return max(1e-5 * math.sqrt(sum(v * v for v in rows) / len(rows)), 1e-12) if rows else 1e-12


def is_filled_up(calls: Sequence[dict[str, Any]], their: Sequence[list[dict[str, Any]]], full: int) -> bool:
    """Whether the ranks' calls hold all samples of the original's, and more, as many as a full batch at most."""
    after = sum(rows_of_calls(c) for c in without_idle(calls, their))
    alike = all(len(c) == len(calls) for c in their)
    return bool(calls) and alike and rows_of_calls(calls) < after <= full and _are_among(calls, their)


def _are_among(calls: Sequence[dict[str, Any]], their: Sequence[list[dict[str, Any]]]) -> bool:
    """Whether the samples that the original's calls were given are all among those of the same calls on all ranks."""
    for i, call in enumerate(calls):
        before, after = (
            [row for c in of for chunk in c["chunks"] for row in chunk["rows"]]
            for of in ([call], [c[i] for c in their])
        )
        if count_common(before, after, near(before)) != len(before):
            return False
    return True


def repeated(x: dict[str, Any], ys: Sequence[dict[str, Any]]) -> int:
    """How many samples the ranks repeat to make equal shares of the original's batches; 0 where anything else differs."""
    if any(len(y["calls"]) != len(x["calls"]) for y in ys):
        return 0
    repeated = 0
    for i, call in enumerate(x["calls"]):
        theirs = [y["calls"][i] for y in ys]
        rows, shares = rows_of_calls([call]), {rows_of_calls([c]) for c in theirs}
        if len(shares) != 1:
            return 0
        more = shares.pop() * len(ys) - rows
        if more != -rows % len(ys):
            return 0
        before, after = (
            [v for c in calls for chunk in c["chunks"] for v in chunk["rows"]] for calls in ([call], theirs)
        )
        if count_common(before, after, near(before)) != len(before):
            return 0
        repeated += more
    return repeated


def has_statistics(x: dict[str, Any]) -> bool:
    """Whether the model keeps statistics of its batches (BatchNorm), in which each sample meets the others."""
    return any(name.endswith(".running_mean") for name in x["buf"])
