"""Which samples the wrapped model was called with in a step.

In: the step of the original and those of the ranks.  Out: findings and notes in a `Comparison`, and numbers of samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .batch_rows import FILLED_UP, is_filled_up, near, rows_of_calls, without_idle
from .comparison import Comparison
from .matching import count_common


def compare_data(
    result: Comparison, x: dict[str, Any], ys: Sequence[dict[str, Any]], k: int, full: int
) -> tuple[int, int]:
    """Samples that the wrapped model was called with; returns their numbers.  Up to `full` a last batch may be filled up."""
    calls, their = x["calls"], [y["calls"] for y in ys]
    before = rows_of_calls(calls)
    after = sum(rows_of_calls(c) for c in without_idle(calls, their))
    bare = [r for r, c in enumerate(their) if any(call["bare"] and call["mode"] for call in c)]
    wrapped = any(not call["bare"] for call in calls)
    if wrapped and bare and not any(not call["bare"] for c in their for call in c):
        result.find(
            "wrap",
            "the model is called past its wrapper: gradients are not averaged",
            k,
            "training goes through `.module` (or a name of the bare model) instead of the wrapped model",
        )
    if not calls and not any(their):
        return _compare_batches(result, x, ys, k)
    if calls and not any(their):
        result.find(
            "wrap",
            "the original calls its wrapped model in this step, the converted program calls none",
            k,
            "the model that is trained is not wrapped, or is called by a method of its own past the wrapper",
        )
        return before, after
    counts = sorted({len(c) for c in their})
    if counts != [len(calls)]:
        result.find(
            "data",
            f"calls of the wrapped model in this step: {len(calls)} before, {' or '.join(map(str, counts))} after",
            k,
        )
        return before, after
    if is_filled_up(calls, their, full):
        result.note(f"{FILLED_UP}, whose rows are cut off before the loss")
        result.content_compared = True
        return before, after
    if before != after:
        factor = f"{after / before:.2f} times" if before else "none before"
        result.find(
            "data",
            f"global batch: {before} samples before, {after} after over {result.world} ranks ({factor})",
            k,
            batch_hint(before, after, result.world),
        )
        return before, after
    for i, call in enumerate(calls):
        if _compare_call(result, call, [c[i] for c in their], k):
            break
    return before, after


def _compare_call(result: Comparison, call: dict[str, Any], theirs: Sequence[dict[str, Any]], k: int) -> bool:
    """One call of the model: the same rows in the same places?  True when something was found."""
    chunks = call["chunks"]
    idle: dict[str, Any] = {"n": 0, "width": 0, "rows": []}
    used = [c["chunks"][0] if c["chunks"] else idle for c in theirs[: max(1, len(chunks))]]
    widths = {c["width"] for c in chunks} | {c["width"] for c in used if c["n"]}
    before = [row for c in chunks for row in c["rows"]]
    after = [row for c in used for row in c["rows"]]
    if len(widths) == 1:
        result.content_compared = True
        close = near(before)
        common = count_common(before, after, close)
        if common == len(before) == len(after):
            if not all(
                count_common(a["rows"], b["rows"], close) == len(a["rows"]) for a, b in zip(chunks, used, strict=False)
            ):
                result.note("the same samples in each step, but dealt to the ranks in another way than to the replicas")
            shares, equal = [c["n"] for c in chunks], [c["n"] for c in used]
            if shares != equal and len(shares) == len(equal):
                result.unequal_shares = (
                    f"the original deals shares of {_and(shares)} samples to its replicas, the converted program"
                    f" {_and(equal)}: dropout and BatchNorm meet other samples together (an inherent difference)"
                )
                result.note(result.unequal_shares)
            return False
        twice = len(after) - count_common(after, _distinct(after, close), close)
        result.find(
            "data",
            f"samples differ: {common} of the original's {len(before)} are seen, {twice} more than once",
            k,
            samples_hint(common, twice, len(before), result.world, k),
        )
        return True
    result.note("the model is wrapped at another place, so its inputs were compared by the loader's sample numbers")
    ids, seen = call["ids"], [n for c in theirs for n in (c["ids"] or [])]
    if ids is None or not seen:
        return False
    result.content_compared = True
    if sorted(map(str, ids)) == sorted(map(str, seen)) or all(c["ids"] == ids for c in theirs):
        return False
    shared = len(set(map(str, ids)) & set(map(str, seen)))
    twice = len(seen) - len(set(map(str, seen)))
    result.find(
        "data",
        f"samples differ: {shared} of the original's {len(set(map(str, ids)))} are read, {twice} more than once",
        k,
        samples_hint(shared, twice, len(ids), result.world, k),
    )
    return True


def _compare_batches(result: Comparison, x: dict[str, Any], ys: Sequence[dict[str, Any]], k: int) -> tuple[int, int]:
    """A step in which the wrapped model itself is not trained: the loader's sample numbers instead of its rows."""
    ids = [str(n) for batch in x["batches"] for n in batch]
    own = [[str(n) for batch in y["batches"] for n in batch] for y in ys]
    seen = [n for o in own for n in o]
    if not ids and not seen:
        return 0, 0
    result.note("the wrapped model is not trained in some steps: samples were compared by the loader's numbers there")
    if all(sorted(o) == sorted(ids) for o in own):
        return len(ids), len(ids)
    if sorted(seen) != sorted(ids):
        shared = len(set(ids) & set(seen))
        result.find(
            "data",
            f"samples differ: {shared} of the original's {len(set(ids))} are read, {len(seen)} reads in all",
            k,
            samples_hint(shared, len(seen) - len(set(seen)), len(ids), result.world, k),
        )
    result.content_compared = True
    return len(ids), len(seen)


def batch_hint(before: int, after: int, world: int) -> str:
    if after == before * world:
        return "the loader's batch is not divided by the number of processes, or every rank reads everything"
    if after < before:
        return "samples are dropped (drop_last, rounding of the batch)"
    return (
        "samples are repeated (as accelerate fills an epoch's last batch up; --sampling batch has no such difference)"
        " or batches are larger"
    )


def samples_hint(common: int, twice: int, total: int, world: int, k: int) -> str:
    if twice and total - twice <= total // world + 1:
        return "every rank reads the same samples (no DistributedSampler, or equal noise on all ranks)"
    if common == 0:
        return "the inputs are made in another way, or drawn from unequal random numbers"
    if k > 0 and not twice:
        return "the order differs from here on: set_epoch is missing, or the sampler draws other numbers"
    return "the order of the samples differs (shuffle, sampler or its random numbers)"


def _distinct(rows: Sequence[float], close: float) -> list[float]:
    kept: list[float] = []
    for row in sorted(rows):
        if not kept or row - kept[-1] > close:
            kept.append(row)
    return kept


def _and(numbers: Sequence[int]) -> str:
    return " and ".join(map(str, numbers))
