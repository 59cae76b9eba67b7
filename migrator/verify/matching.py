"""Which parameter, buffer or sample of one side is which of the other's.

In: names, shapes and numbers of both sides.  Out: pairs.  A parameter's identity is its place in its optimizer (a program
may wrap a sub-module and its conversion the whole model); names are the fallback, and are said to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .records import Names


@dataclass(frozen=True, slots=True)
class Matched:
    pairs: tuple[tuple[int, int], ...]  # places in the optimizers before and after
    names: tuple[str, ...]  # the original's names
    owned: tuple[bool, ...]  # the converted side's parameter belongs to a wrapped model
    notes: tuple[str, ...] = ()
    problem: str = ""


def match_parameters(before: Names, after: Names) -> Matched:
    """By place where the shapes agree, else by name, else not at all."""
    if before.shapes == after.shapes:
        pairs = tuple((i, i) for i in range(len(before.names)))
        return Matched(pairs, before.names, after.owned)
    places = match_names([f"0:{n}" for n in before.names], [f"0:{n}" for n in after.names])
    index = {f"0:{n}": i for i, n in enumerate(after.names)}
    pairs = tuple(
        (i, index[places[f"0:{n}"]])
        for i, n in enumerate(before.names)
        if f"0:{n}" in places and before.shapes[i] == after.shapes[index[places[f"0:{n}"]]]
    )
    trained = [n for i, n in enumerate(before.names) if before.trained[i]]
    found = {before.names[i] for i, _ in pairs}
    missing = [n for n in trained if n not in found]
    if missing:
        problem = (
            f"the converted optimizer holds {len(after.names)} parameters, the original's {len(before.names)};"
            f" not found: {', '.join(missing[:3])}"
        )
        return Matched((), (), (), problem=problem)
    note = "the optimizers hold their parameters in different orders: matched by name"
    return Matched(pairs, tuple(before.names[i] for i, _ in pairs), tuple(after.owned[j] for _, j in pairs), (note,))


def match_names(theirs: Sequence[str], ours: Sequence[str]) -> dict[str, str]:
    """Pair names "wrap:name" also where one side wraps a sub-module of the other's: by their common end, if it is unique."""
    present = set(ours)
    matched = {name: name for name in theirs if name in present}
    taken = set(matched.values())
    free = [name for name in ours if name not in taken]
    for name in theirs:
        if name in matched:
            continue
        tail = name.split(":", 1)[1]
        ends = [o for o in free if _same_end(tail, o.split(":", 1)[1])]
        if len(ends) == 1:
            matched[name] = ends[0]
            free.remove(ends[0])
    return matched


def _same_end(a: str, b: str) -> bool:
    return a == b or a.endswith("." + b) or b.endswith("." + a)


def count_common(a: Sequence[float], b: Sequence[float], near: float) -> int:
    """How many numbers of `a` have a partner in `b` (each used once) that is at most `near` away."""
    x, y = sorted(a), sorted(b)
    i = j = common = 0
    while i < len(x) and j < len(y):
        if abs(x[i] - y[j]) <= near:
            common, i, j = common + 1, i + 1, j + 1
        elif x[i] < y[j]:
            i += 1
        else:
            j += 1
    return common
