"""Losses and gradients of a step, which tell why everything behind them differs.

In: the step of the original and those of the ranks.  Out: findings in a `Comparison`, and the largest relative difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .comparison import TINY, Comparison
from .distances import distance, relative
from .matching import Matched


def compare_losses(result: Comparison, x: dict[str, Any], ys: Sequence[dict[str, Any]], k: int) -> float:
    """The values of which `backward()` is called, as means over the ranks."""
    losses, theirs = x["losses"], [y["losses"] for y in ys]
    counts = sorted({len(t) for t in theirs})
    if counts != [len(losses)]:
        result.find(
            "loss", f"backward() calls in this step: {len(losses)} before, {' or '.join(map(str, counts))} after", k
        )
        return math.inf
    worst = 0.0
    for i, value in enumerate(losses):
        others = [t[i] for t in theirs if t[i] is not None]
        if value is None or not others:
            continue
        mean = sum(others) / len(others)
        apart = abs(mean - value)
        apart = apart / max(abs(value), abs(mean), 1e-12) if math.isfinite(apart) else math.inf
        scale = max(abs(v) for v in (*others, value)) if math.isfinite(apart) else 1.0
        # A loss near zero is compared with the size of the ranks' losses.
        apart = min(apart, abs(mean - value) / scale) if scale > 0 and math.isfinite(apart) else apart
        worst = max(worst, apart)
        if apart > result.tolerance:
            ratio = mean / value if value else math.nan
            result.find(
                "loss",
                f"loss: before {value:.7g}, after {mean:.7g} as the mean over ranks ({ratio:.4g} times)",
                k,
                result.unequal_shares or loss_hint(ratio, result.world),
            )
            break
    return worst


def loss_hint(ratio: float, world: int) -> str:
    if abs(ratio * world - 1) < 1e-3:
        return f"the loss is a sum over samples: each of {world} ranks has its share of it"
    if abs(ratio - world) < 1e-3 * world:
        return f"the loss is multiplied by the number of processes, or a division by {world} was lost"
    if math.isfinite(ratio) and abs(ratio - round(ratio)) < 1e-4 and round(ratio) > 1:
        return f"a division by {round(ratio)} was lost (accumulation)"
    if math.isfinite(ratio) and ratio > 0 and abs(1 / ratio - round(1 / ratio)) < 1e-4 and round(1 / ratio) > 1:
        return f"a division by {round(1 / ratio)} was added"
    return (
        "the loss is not the mean over samples of equal weight: it couples the batch, weighs classes or masks samples"
    )


def compare_gradients(result: Comparison, x: dict[str, Any], y: dict[str, Any], matched: Matched, k: int) -> float:
    """Gradients as the optimizer sees them, and their norm before clipping."""
    largest = max((g[0] for g in x["grad"] if g and math.isfinite(g[0])), default=0.0)
    worst, place = 0.0, -1
    lost = []
    for n, (i, j) in enumerate(matched.pairs):
        a, b = x["grad"][i], y["grad"][j]
        if a and a[0] > TINY * largest and not (b and b[0] > 0.0):
            lost.append(matched.names[n])
        apart = relative(a, b)
        if apart > result.tolerance:
            apart = _beside_largest(result, apart, a, b, largest)
        if apart > worst:
            worst, place = apart, n
    if worst > result.tolerance:
        i, j = matched.pairs[place]
        a, b = x["grad"][i], y["grad"][j]
        hint = _scale_hint(x, y, matched, result.world)
        if lost and len(lost) < len(matched.pairs):
            hint = f"no gradient reaches {some(lost)} in the converted program"
        elif lost:
            hint = "no gradient reaches the optimizer's parameters: it holds parameters of another model"
        result.find(
            "gradient",
            f"gradient of {matched.names[place]}: norm {_norm(a)} before, {_norm(b)} after, relative difference {worst:.2e}",
            k,
            hint,
        )
    for a, b in zip(x["clip"], y["clip"], strict=False):
        if abs(a - b) > max(10 * result.tolerance, 1e-6) * max(abs(a), abs(b), 1e-12):
            result.find(
                "gradient",
                f"norm of all gradients before clipping: {a:.6g} before, {b:.6g} after ({b / a if a else 0:.4g} times)",
                k,
                _scale_hint(x, y, matched, result.world) or "clipping may hide a factor in the loss",
            )
            worst = max(worst, abs(a - b) / max(abs(a), 1e-12))
            break
    return worst


def _scale_hint(x: dict[str, Any], y: dict[str, Any], matched: Matched, world: int) -> str:
    ratios = sorted(
        b[0] / a[0]
        for i, j in matched.pairs
        if (a := x["grad"][i]) and (b := y["grad"][j]) and a[0] > 1e-12 and math.isfinite(b[0])
    )
    if not ratios:
        return ""
    middle = ratios[len(ratios) // 2]
    low, high = ratios[len(ratios) // 10], ratios[len(ratios) * 9 // 10]
    if high - low > 1e-3 * middle or abs(middle - 1) < 1e-3:
        return ""
    reason = ": the loss is a sum" if abs(middle * world - 1) < 1e-3 else ""
    return f"every gradient is scaled by {middle:.4g}{reason}"


def _beside_largest(
    result: Comparison,
    apart: float,
    a: Sequence[float] | None,
    b: Sequence[float] | None,
    largest: float,
) -> float:
    """The relative difference of a gradient that is small beside the largest one, where rounding explains it."""
    share = distance(a or [0.0] * 3, b or [0.0] * 3) / largest if largest > 0.0 else math.inf
    if not result.float64 and max((a or [0.0])[0], (b or [0.0])[0]) < TINY * largest * 10:
        return min(apart, share)
    if share > result.floor:
        return apart
    # float32 cannot tell: it stays a difference, of rounding's size, which float64 decides on (`check`).
    return min(share, result.tolerance) if result.float64 else max(share, 1.01 * result.tolerance)


def _norm(value: Sequence[float] | None) -> str:
    return "none" if value is None else f"{value[0]:.6g}"


def some(names: Sequence[str]) -> str:
    """The first of the names, and how many more there are."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
