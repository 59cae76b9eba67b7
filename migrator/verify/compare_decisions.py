"""What a program decides in a step: which optimizer steps, at which rate and settings, and which collective calls a rank makes.

In: the step of the original and those of the ranks.  Out: findings and notes in a `Comparison`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .comparison import Comparison


def compare_order(result: Comparison, x: dict[str, Any], ys: Sequence[dict[str, Any]], k: int) -> bool:
    """Whether the same optimizer steps on all sides."""
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


def compare_rates(result: Comparison, x: dict[str, Any], ys: Sequence[dict[str, Any]], k: int) -> None:
    """Learning rates: of all ranks alike, and as the original's."""
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


def rate_hint(a: float, b: float, world: int, k: int) -> str:
    if a and abs(b / a - world) < 1e-6:
        return "the rate is multiplied by the number of processes although the global batch is kept"
    if k > 0:
        return "the schedule runs at another pace: it may step once per process, or count other steps"
    return ""


def compare_settings(result: Comparison, x: dict[str, Any], y: dict[str, Any], k: int) -> None:
    """Weight decay, momentum and the like: too small in one step to be seen in the parameters."""
    for g, (a, b) in enumerate(zip(x["settings"], y["settings"], strict=False)):
        for name in a:
            if name in b and repr(a[name]) != repr(b[name]):
                result.find("settings", f"the optimizer's {name} in group {g}: {a[name]} before, {b[name]} after", k)
                return


def compare_scaler(result: Comparison, x: dict[str, Any], y: dict[str, Any], k: int) -> None:
    """The loss scale, which tells of skipped steps."""
    if x["scale"] != y["scale"]:
        result.find(
            "scaler",
            f"loss scale since the last step: {_short(x['scale'])} before, {_short(y['scale'])} after",
            k,
            "another step was skipped for gradients that are not finite",
        )


def compare_collectives(result: Comparison, ys: Sequence[dict[str, Any]], k: int) -> None:
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


def note_synchronisation(result: Comparison, x: dict[str, Any], y: dict[str, Any]) -> None:
    """Accumulation that exchanges gradients more often than it has to."""
    if len(x["losses"]) > 1 and y["sync"] > 1 and len(y["losses"]) == y["sync"] and x["opt"] == 0:
        result.note(
            f"{y['sync']} synchronised backward() calls in one optimizer step: the same numbers, but more communication than with"
            " no_sync() around all but the last"
        )


def _short(values: Sequence[float]) -> str:
    return ", ".join(f"{v:.6g}" for v in values[:3]) + (", .." if len(values) > 3 else "")
