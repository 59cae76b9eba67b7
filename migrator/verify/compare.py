"""The original's record against the ranks' records, step by step, the cause first.

In: one `Record` of the original, one per rank of the converted program.  Out: findings (what differs), notes (what differs
and is meant to, or cannot be otherwise) and a row of figures per step.  Reads nothing else and decides no verdict: that is
`judge`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .batch_rows import FILLED_UP, has_statistics, is_filled_up, repeated, rows_of_calls
from .compare_decisions import (
    compare_collectives,
    compare_order,
    compare_rates,
    compare_scaler,
    compare_settings,
    note_synchronisation,
)
from .compare_gradients import compare_gradients, compare_losses
from .compare_samples import compare_data
from .compare_states import compare_buffers, compare_parameters, compare_ranks
from .comparison import RANKS_TOLERANCE, Comparison
from .distances import worst_of_lists
from .matching import match_parameters
from .records import Record
from .verdict import KINDS, Finding, Row

_INHERENT = "the step was not compared: an inherent difference {}; --sampling call has none"
HIDDEN_BY_DATA = ("loss", "ranks", "gradient", "scaler", "parameter", "buffer")
HIDDEN_BY_ANY = {
    "gradient": ("parameter", "buffer"),
    "loss": ("buffer", "parameter"),
    "ranks": ("gradient", "parameter"),
}


def compare(before: Record, ranks: Sequence[Record], tolerance: float, float64: bool = False) -> Comparison:
    """Compare all steps that every process took; stops at the first one that differs."""
    result = Comparison(tolerance, len(ranks), float64=float64)
    if any(r.steps for r in ranks) and all(not r.wraps for r in ranks):
        result.find(
            "wrap",
            "no model is wrapped in the converted program: every rank trains alone",
            hint="DistributedDataParallel is missing, or sits behind a guard that is not met",
        )
        return result
    _compare_start(result, before, ranks)
    common = min([len(before.steps), *(len(r.steps) for r in ranks)])
    for k in range(common):
        _compare_step(result, before, ranks, k)
        if any(f.step == k for f in result.findings):
            break
    return result


def ordered(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Causes first, and without what they explain."""
    kinds = {f.kind for f in findings}
    hidden: set[str] = set()
    if kinds & {"data", "wrap", "order"}:
        hidden.update(HIDDEN_BY_DATA)
    for cause, consequences in HIDDEN_BY_ANY.items():
        if cause in kinds:
            hidden.update(consequences)
    if "error" in kinds or "hang" in kinds:
        hidden.update(("steps", "lockstep"))
    rank = {kind: i for i, kind in enumerate(KINDS)}
    return tuple(sorted((f for f in findings if f.kind not in hidden), key=lambda f: rank[f.kind]))


def _compare_start(result: Comparison, before: Record, ranks: Sequence[Record]) -> None:
    firsts = [r.init for r in ranks]
    if before.init is None or any(f is None for f in firsts):
        return
    for r, first in enumerate(firsts[1:], 1):
        worst = worst_of_lists(firsts[0]["param"], first["param"])  # type: ignore[index]
        if worst > RANKS_TOLERANCE:
            result.find(
                "start",
                f"rank {r} starts with other parameters than rank 0 (relative difference {worst:.2e})",
                hint="nothing made the ranks' initial weights equal before training",
            )
            return
    started = ranks[0].started
    if started and started["loaded"]:
        result.note(
            f"initial weights differed in {started['loaded']} parameters and were taken from the original for this check"
        )


def _compare_step(result: Comparison, before: Record, ranks: Sequence[Record], k: int) -> None:
    x, ys = before.steps[k], [r.steps[k] for r in ranks]
    y = ys[0]
    same_optimizer = compare_order(result, x, ys, k)
    compare_rates(result, x, ys, k)
    compare_settings(result, x, y, k)
    if ranks[0].pads and (again := repeated(x, ys)):
        rows = f"{rows_of_calls(x['calls'])} samples of a step do not divide over {len(ys)} processes"
        why = f"{rows}: {again} of them are repeated ({_INHERENT.format('of this way')})"
        _pass_over(result, x, ys, ranks[0].names[k].names, k, why)
        return
    full = max(rows_of_calls(step["calls"]) for step in before.steps) if ranks[0].cuts else 0
    if has_statistics(x) and is_filled_up(x["calls"], [y["calls"] for y in ys], full):
        why = f"{FILLED_UP}, which BatchNorm sees ({_INHERENT.format('of loaders that accelerate prepares')})"
        _pass_over(result, x, ys, ranks[0].names[k].names, k, why)
        return
    counted = compare_data(result, x, ys, k, full)
    loss = compare_losses(result, x, ys, k)
    matched = match_parameters(before.names[k], ranks[0].names[k])
    for note in matched.notes:
        result.note(note)
    gradient = parameter = 0.0
    if not matched.pairs:
        result.find("parameter", matched.problem, k)
    elif same_optimizer:
        gradient = compare_gradients(result, x, y, matched, k)
        parameter = compare_parameters(result, before, ranks[0], matched, k)
    apart = compare_ranks(result, ys, ranks[0].names[k].names, k)
    buffer = compare_buffers(result, x, y, k)
    compare_collectives(result, ys, k)
    compare_scaler(result, x, y, k)
    note_synchronisation(result, x, y)
    losses = [v for v in x["losses"] if v is not None]
    result.rows.append(
        Row(
            k,
            x["opt"],
            counted[0],
            counted[1],
            losses[-1] if losses else None,
            loss,
            gradient,
            parameter,
            buffer,
            apart,
        )
    )


def _pass_over(
    result: Comparison, x: dict[str, Any], ys: Sequence[dict[str, Any]], names: Sequence[str], k: int, why: str
) -> None:
    """A step whose batch does not divide: the ranks must agree among themselves, and the next step starts from the original."""
    result.note(why)
    apart = compare_ranks(result, ys, names, k)
    compare_collectives(result, ys, k)
    losses = [v for v in x["losses"] if v is not None]
    rows = [rows_of_calls(x["calls"]), sum(rows_of_calls(y["calls"]) for y in ys)]
    loss = losses[-1] if losses else None
    result.rows.append(Row(k, x["opt"], rows[0], rows[1], loss, 0.0, 0.0, 0.0, 0.0, apart, compared=False))
