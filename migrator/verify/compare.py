"""The original's record against the ranks' records, step by step, the cause first.

In: one `Record` of the original, one per rank of the converted program.  Out: findings (what differs), notes (what differs
and is meant to, or cannot be otherwise) and a row of figures per step.  Reads nothing else and decides no verdict: that is
`judge`'s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .distances import distance
from .matching import Matched, count_common, match_names, match_parameters
from .records import Record
from .verdict import KINDS, Finding, Row

RANKS_TOLERANCE = 1e-7
TINY = 1e-6  # float32: gradients below this share of the largest one are rounding noise
FLOOR = 1024.0  # rounding units: gradients that are closer than that, beside the largest one, may differ by rounding
UNITS = {False: 2.0**-23, True: 2.0**-52}  # of float32 and float64
UPDATE_TOLERANCE = 1e-2  # of the update: Adam turns the sign of a gradient near zero into a whole step
_INHERENT = "the step was not compared: an inherent difference {}; --sampling call has none"
_FILLED_UP = "the last batch of an epoch is filled up with samples from its beginning"
WHOLE_STEPS = (
    3.0  # the original's update and its learning rate, times this: the most that a scale-free step makes of rounding
)
HIDDEN_BY_DATA = ("loss", "ranks", "gradient", "scaler", "parameter", "buffer")
HIDDEN_BY_ANY = {
    "gradient": ("parameter", "buffer"),
    "loss": ("buffer", "parameter"),
    "ranks": ("gradient", "parameter"),
}


@dataclass(slots=True)
class Comparison:
    """What is being found."""

    tolerance: float
    world: int
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    content_compared: bool = False
    unequal_shares: str = ""  # of the original's replicas, where the converted program has others
    float64: bool = False
    # Parameters of which elements have no gradient but rounding (`noise`): name -> how many, "" for all of them.
    noise: dict[str, str] = field(default_factory=dict)
    quiet: set[str] = field(default_factory=set)  # .. all of them, whether they differ or not
    unresolved: int | None = None  # the last step where float32 could not tell that of another parameter

    @property
    def floor(self) -> float:
        """How far gradients may be apart by rounding, as a share of the largest one."""
        return FLOOR * UNITS[self.float64]

    def find(self, kind: str, text: str, step: int | None = None, hint: str = "") -> None:
        self.findings.append(Finding(kind, text, step, hint))

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


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


# ---------------------------------------------------------------- start
def _compare_start(result: Comparison, before: Record, ranks: Sequence[Record]) -> None:
    firsts = [r.init for r in ranks]
    if before.init is None or any(f is None for f in firsts):
        return
    for r, first in enumerate(firsts[1:], 1):
        worst = _worst_of_lists(firsts[0]["param"], first["param"])  # type: ignore[index]
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


def _worst_of_lists(a: Sequence[Sequence[Any]], b: Sequence[Sequence[Any]]) -> float:
    worst = 0.0
    for group_a, group_b in zip(a, b, strict=False):
        for x, y in zip(group_a, group_b, strict=False):
            worst = max(worst, relative(x, y))
    return worst


def relative(a: Sequence[float] | None, b: Sequence[float] | None) -> float:
    """||a - b|| / max(||a||, ||b||), estimated; None stands for zeros."""
    zero = [0.0, 0.0, 0.0]
    a, b = a or zero, b or zero
    apart = distance(a, b)
    size = max(a[0], b[0])
    return 0.0 if apart == 0.0 else apart / size if size > 0 else math.inf


# ---------------------------------------------------------------- one step
def _compare_step(result: Comparison, before: Record, ranks: Sequence[Record], k: int) -> None:
    x, ys = before.steps[k], [r.steps[k] for r in ranks]
    y = ys[0]
    same_optimizer = _compare_order(result, x, ys, k)
    _compare_rates(result, x, ys, k)
    _compare_settings(result, x, y, k)
    if ranks[0].pads and (repeated := _repeated(x, ys)):
        rows = f"{_rows_of_calls(x['calls'])} samples of a step do not divide over {len(ys)} processes"
        why = f"{rows}: {repeated} of them are repeated ({_INHERENT.format('of this way')})"
        _pass_over(result, x, ys, ranks[0].names[k].names, k, why)
        return
    full = max(_rows_of_calls(step["calls"]) for step in before.steps) if ranks[0].cuts else 0
    if _has_statistics(x) and _is_filled_up(x["calls"], [y["calls"] for y in ys], full):
        why = f"{_FILLED_UP}, which BatchNorm sees ({_INHERENT.format('of loaders that accelerate prepares')})"
        _pass_over(result, x, ys, ranks[0].names[k].names, k, why)
        return
    counted = _compare_data(result, x, ys, k, full)
    loss = _compare_losses(result, x, ys, k)
    matched = match_parameters(before.names[k], ranks[0].names[k])
    for note in matched.notes:
        result.note(note)
    gradient = parameter = 0.0
    if not matched.pairs:
        result.find("parameter", matched.problem, k)
    elif same_optimizer:
        gradient = _compare_gradients(result, x, y, matched, k)
        parameter = _compare_parameters(result, before, ranks[0], matched, k)
    apart = _compare_ranks(result, ys, ranks[0].names[k].names, k)
    buffer = _compare_buffers(result, x, y, k)
    _compare_collectives(result, ys, k)
    _compare_scaler(result, x, y, k)
    _note_synchronisation(result, x, y)
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


def _compare_order(result: Comparison, x: dict[str, Any], ys: Sequence[dict[str, Any]], k: int) -> bool:
    for r, y in enumerate(ys):
        if (x["opt"], x["cls"]) != (y["opt"], y["cls"]):
            result.find(
                "order",
                f"another optimizer steps: before {x['cls']} (number {x['opt']}), after {y['cls']} (number {y['opt']})"
                f" on rank {r}",
                k,
            )
            return False
    return True


def _compare_rates(result: Comparison, x: dict[str, Any], ys: Sequence[dict[str, Any]], k: int) -> None:
    for r, y in enumerate(ys[1:], 1):
        if y["lr"] != ys[0]["lr"]:
            result.find(
                "rate",
                f"ranks differ in their learning rate: {_short(ys[0]['lr'])} on rank 0, {_short(y['lr'])} on {r}",
                k,
                "a schedule or decision reads a number that is the rank's own",
            )
            return
    y = ys[0]
    if len(x["lr"]) != len(y["lr"]):
        result.find("rate", f"{len(x['lr'])} parameter groups before, {len(y['lr'])} after", k)
        return
    for a, b in zip(x["lr"], y["lr"], strict=True):
        if abs(a - b) > 1e-9 * max(abs(a), abs(b)):
            factor = f"{b / a:.4g} times" if a else "not zero"
            result.find(
                "rate", f"learning rate: before {a:.6g}, after {b:.6g} ({factor})", k, rate_hint(a, b, result.world, k)
            )
            return


def _compare_settings(result: Comparison, x: dict[str, Any], y: dict[str, Any], k: int) -> None:
    """Weight decay, momentum and the like: too small in one step to be seen in the parameters."""
    for g, (a, b) in enumerate(zip(x["settings"], y["settings"], strict=False)):
        for name in a:
            if name in b and repr(a[name]) != repr(b[name]):
                result.find("settings", f"the optimizer's {name} in group {g}: {a[name]} before, {b[name]} after", k)
                return


def rate_hint(a: float, b: float, world: int, k: int) -> str:
    if a and abs(b / a - world) < 1e-6:
        return "the rate is multiplied by the number of processes although the global batch is kept"
    if k > 0:
        return "the schedule runs at another pace: it may step once per process, or count other steps"
    return ""


def _short(values: Sequence[float]) -> str:
    return ", ".join(f"{v:.6g}" for v in values[:3]) + (", .." if len(values) > 3 else "")


# ---------------------------------------------------------------- batches that do not divide
def _repeated(x: dict[str, Any], ys: Sequence[dict[str, Any]]) -> int:
    """How many samples the ranks repeat to make equal shares of the original's batches; 0 where anything else differs."""
    if any(len(y["calls"]) != len(x["calls"]) for y in ys):
        return 0
    repeated = 0
    for i, call in enumerate(x["calls"]):
        theirs = [y["calls"][i] for y in ys]
        rows, shares = _rows_of_calls([call]), {_rows_of_calls([c]) for c in theirs}
        if len(shares) != 1:
            return 0
        more = shares.pop() * len(ys) - rows
        if more != -rows % len(ys):
            return 0
        before, after = (
            [v for c in calls for chunk in c["chunks"] for v in chunk["rows"]] for calls in ([call], theirs)
        )
        if count_common(before, after, _near(before)) != len(before):
            return 0
        repeated += more
    return repeated


def _near(rows: Sequence[float]) -> float:
    """How far the numbers of one sample may lie apart."""
    return max(1e-5 * math.sqrt(sum(v * v for v in rows) / len(rows)), 1e-12) if rows else 1e-12


def _pass_over(
    result: Comparison, x: dict[str, Any], ys: Sequence[dict[str, Any]], names: Sequence[str], k: int, why: str
) -> None:
    """A step whose batch does not divide: the ranks must agree among themselves, and the next step starts from the original."""
    result.note(why)
    apart = _compare_ranks(result, ys, names, k)
    _compare_collectives(result, ys, k)
    losses = [v for v in x["losses"] if v is not None]
    rows = [_rows_of_calls(x["calls"]), sum(_rows_of_calls(y["calls"]) for y in ys)]
    loss = losses[-1] if losses else None
    result.rows.append(Row(k, x["opt"], rows[0], rows[1], loss, 0.0, 0.0, 0.0, 0.0, apart, compared=False))


# ---------------------------------------------------------------- data
def _compare_data(
    result: Comparison, x: dict[str, Any], ys: Sequence[dict[str, Any]], k: int, full: int
) -> tuple[int, int]:
    """Samples that the wrapped model was called with; returns their numbers.  Up to `full` a last batch may be filled up."""
    calls, their = x["calls"], [y["calls"] for y in ys]
    before = _rows_of_calls(calls)
    after = sum(_rows_of_calls(c) for c in _without_idle(calls, their))
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
    if _is_filled_up(calls, their, full):
        result.note(f"{_FILLED_UP}, whose rows are cut off before the loss")
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


def _has_statistics(x: dict[str, Any]) -> bool:
    """Whether the model keeps statistics of its batches (BatchNorm), in which each sample meets the others."""
    return any(name.endswith(".running_mean") for name in x["buf"])


def _is_filled_up(calls: Sequence[dict[str, Any]], their: Sequence[list[dict[str, Any]]], full: int) -> bool:
    """Whether the ranks' calls hold all samples of the original's, and more, as many as a full batch at most."""
    after = sum(_rows_of_calls(c) for c in _without_idle(calls, their))
    alike = all(len(c) == len(calls) for c in their)
    return bool(calls) and alike and _rows_of_calls(calls) < after <= full and _are_among(calls, their)


def _are_among(calls: Sequence[dict[str, Any]], their: Sequence[list[dict[str, Any]]]) -> bool:
    """Whether the samples that the original's calls were given are all among those of the same calls on all ranks."""
    for i, call in enumerate(calls):
        before, after = (
            [row for c in of for chunk in c["chunks"] for row in chunk["rows"]]
            for of in ([call], [c[i] for c in their])
        )
        if count_common(before, after, _near(before)) != len(before):
            return False
    return True


def batch_hint(before: int, after: int, world: int) -> str:
    if after == before * world:
        return "the loader's batch is not divided by the number of processes, or every rank reads everything"
    if after < before:
        return "samples are dropped (drop_last, rounding of the batch)"
    return (
        "samples are repeated (as accelerate fills an epoch's last batch up; --sampling batch has no such difference)"
        " or batches are larger"
    )


def _without_idle(calls: Sequence[dict[str, Any]], their: Sequence[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """A rank beyond the replicas that the original used may run a dummy row: it counts for nothing."""
    kept = []
    for r, own in enumerate(their):
        kept.append([c for i, c in enumerate(own) if not (i < len(calls) and r >= max(1, len(calls[i]["chunks"])))])
    return kept


def _rows_of_calls(calls: Sequence[dict[str, Any]]) -> int:
    return sum(chunk["n"] or 0 for call in calls for chunk in call["chunks"])


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
        near = _near(before)
        common = count_common(before, after, near)
        if common == len(before) == len(after):
            if not all(
                count_common(a["rows"], b["rows"], near) == len(a["rows"]) for a, b in zip(chunks, used, strict=False)
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
        twice = len(after) - count_common(after, _distinct(after, near), near)
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


def _and(numbers: Sequence[int]) -> str:
    return " and ".join(map(str, numbers))


def _distinct(rows: Sequence[float], near: float) -> list[float]:
    kept: list[float] = []
    for row in sorted(rows):
        if not kept or row - kept[-1] > near:
            kept.append(row)
    return kept


def samples_hint(common: int, twice: int, total: int, world: int, k: int) -> str:
    if twice and total - twice <= total // world + 1:
        return "every rank reads the same samples (no DistributedSampler, or equal noise on all ranks)"
    if common == 0:
        return "the inputs are made in another way, or drawn from unequal random numbers"
    if k > 0 and not twice:
        return "the order differs from here on: set_epoch is missing, or the sampler draws other numbers"
    return "the order of the samples differs (shuffle, sampler or its random numbers)"


# ---------------------------------------------------------------- numbers
def _compare_losses(result: Comparison, x: dict[str, Any], ys: Sequence[dict[str, Any]], k: int) -> float:
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


def _compare_gradients(result: Comparison, x: dict[str, Any], y: dict[str, Any], matched: Matched, k: int) -> float:
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
            hint = f"no gradient reaches {_some(lost)} in the converted program"
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


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _compare_parameters(result: Comparison, before: Record, after: Record, matched: Matched, k: int) -> float:
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
                f"{_some(foreign)}: in the original's wrapped model, but in no wrapped model after the conversion"
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


def _compare_ranks(result: Comparison, ys: Sequence[dict[str, Any]], names: Sequence[str], k: int) -> float:
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


def _compare_buffers(result: Comparison, x: dict[str, Any], y: dict[str, Any], k: int) -> float:
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


def _compare_collectives(result: Comparison, ys: Sequence[dict[str, Any]], k: int) -> None:
    """Ranks that make different collective calls wait for each other, sooner or later."""
    own = ys[0]["collectives"]
    for r, y in enumerate(ys[1:], 1):
        if y["collectives"] != own:
            at = next((i for i, (a, b) in enumerate(zip(own, y["collectives"], strict=False)) if a != b), None)
            here = own[at] if at is not None else f"{len(own)} of them"
            there = y["collectives"][at] if at is not None else f"{len(y['collectives'])}"
            result.find(
                "lockstep",
                f"ranks make different collective calls before step {k}: {here} on rank 0, {there} on rank {r}",
                k,
                "some ranks call the wrapped model, or a collective, where others do not: on GPUs they wait for ever",
            )
            return


def _compare_scaler(result: Comparison, x: dict[str, Any], y: dict[str, Any], k: int) -> None:
    if x["scale"] != y["scale"]:
        result.find(
            "scaler",
            f"loss scale since the last step: {_short(x['scale'])} before, {_short(y['scale'])} after",
            k,
            "another step was skipped for gradients that are not finite",
        )


def _note_synchronisation(result: Comparison, x: dict[str, Any], y: dict[str, Any]) -> None:
    if len(x["losses"]) > 1 and y["sync"] > 1 and len(y["losses"]) == y["sync"] and x["opt"] == 0:
        result.note(
            f"{y['sync']} synchronised backward() calls in one optimizer step: the same numbers, but more communication than with"
            " no_sync() around all but the last"
        )
