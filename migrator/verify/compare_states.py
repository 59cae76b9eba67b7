"""Parameters and buffers after a step, and what the ranks must have alike.

In: the records of both sides.  Out: findings in a `Comparison`, and the largest relative difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .compare_gradients import some
from .comparison import RANKS_TOLERANCE, TINY, Comparison
from .distances import distance, relative
from .matching import Matched, match_names
from .records import Record

UPDATE_TOLERANCE = 1e-2  # of the update: Adam turns the sign of a gradient near zero into a whole step
WHOLE_STEPS = (
    3.0  # the original's update and its learning rate, times this: the most that a scale-free step makes of rounding
)


def compare_parameters(result: Comparison, before: Record, after: Record, matched: Matched, k: int) -> float:
    """Parameters after the step; a difference that is small against the update is rounding."""
    x, y = before.steps[k], after.steps[k]
    former = _former_parameters(before, k)
    worst, place = 0.0, -1
    for n, (i, j) in enumerate(matched.pairs):
        a, b = x["param"][i], y["param"][j]
        apart = relative(a, b)
        settled = y["settled"].get(str(j)) or {"count": 0}
        if settled["count"]:
            result.quiet.add(matched.names[n])
        if apart > result.tolerance and former is not None:
            update = distance(former[i], a)
            rest = settled.get("rest")
            if distance(a, b) <= UPDATE_TOLERANCE * update:
                apart = min(apart, result.tolerance)
            elif rest and (relative(a, rest) <= result.tolerance or distance(a, rest) <= UPDATE_TOLERANCE * update):
                close = min(relative(a, rest), result.tolerance)
                if _is_noise(result, settled, matched.names[n], update, x["lr"], k):
                    apart = close
        if apart > worst:
            worst, place = apart, n
    if worst > result.tolerance:
        note = (
            "" if matched.owned[place] else "the converted optimizer holds parameters that are not the wrapped model's"
        )
        result.find(
            "parameter",
            f"parameter {matched.names[place]} after the step: relative difference {worst:.2e}",
            k,
            note or "the optimizer's settings or the gradients it sees differ",
        )
    elif not all(matched.owned) and any(before.names[k].owned):
        foreign = [
            matched.names[n]
            for n, own in enumerate(matched.owned)
            if not own and before.names[k].owned[matched.pairs[n][0]]
        ]
        if foreign:
            result.note(
                f"{some(foreign)}: in the original's wrapped model, but in no wrapped model after the conversion"
            )
    return worst


def _is_noise(
    result: Comparison, settled: dict[str, Any], name: str, update: float, rates: Sequence[float], k: int
) -> bool:
    """Whether elements without a gradient but rounding are no further apart than an optimizer's steps make them."""
    if settled["apart"] > WHOLE_STEPS * (update + max(rates, default=0.0) * math.sqrt(settled["count"])):
        return False
    if name not in result.noise:
        result.unresolved = k
    whole = settled["count"] == settled["of"]
    result.noise[name] = "" if whole else f"{settled['count']} of {settled['of']} elements of "
    return True


def _former_parameters(record: Record, k: int) -> list[Any] | None:
    number = record.steps[k]["opt"]
    for step in reversed(record.steps[:k]):
        if step["opt"] == number and len(step["param"]) == len(record.steps[k]["param"]):
            return list(step["param"])
    for group in (record.init or {}).get("param", []):
        if len(group) == len(record.steps[k]["param"]):
            return list(group)
    return None


def compare_ranks(result: Comparison, ys: Sequence[dict[str, Any]], names: Sequence[str], k: int) -> float:
    """Gradients and parameters of all ranks, which are to be the same numbers."""
    worst, what, place, rank = 0.0, "", 0, 0
    for r, y in enumerate(ys[1:], 1):
        for kind in ("grad", "param"):
            largest = max((g[0] for g in ys[0][kind] if g and math.isfinite(g[0])), default=0.0)
            for i, (a, b) in enumerate(zip(ys[0][kind], y[kind], strict=False)):
                apart = relative(a, b)
                if max((a or [0.0])[0], (b or [0.0])[0]) < TINY * largest:
                    apart = distance(a or [0.0] * 3, b or [0.0] * 3) / largest if largest else apart
                if apart > worst:
                    worst, what, place, rank = apart, kind, i, r
    if worst > RANKS_TOLERANCE:
        kind = "gradient" if what == "grad" else "parameter"
        name = names[place] if place < len(names) else str(place)
        result.find(
            "ranks",
            f"ranks differ: {kind} of {name} on rank {rank} against rank 0, relative difference {worst:.2e}",
            k,
            "gradients were not averaged over the ranks",
        )
    return worst


def compare_buffers(result: Comparison, x: dict[str, Any], y: dict[str, Any], k: int) -> float:
    """Buffers of rank 0's wrapped models: statistics, running averages."""
    worst, place = 0.0, ""
    for theirs, ours in match_names(list(x["buf"]), list(y["buf"])).items():
        apart = relative(x["buf"][theirs], y["buf"][ours])
        if apart > worst:
            worst, place = apart, theirs
    if worst > result.tolerance:
        result.find(
            "buffer",
            f"buffer {place.split(':', 1)[1]}: relative difference {worst:.2e}",
            k,
            "statistics of other samples: another share per rank, or synchronised BatchNorm",
        )
    return worst
