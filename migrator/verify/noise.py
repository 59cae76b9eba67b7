"""Elements of a parameter whose gradient is zero but for rounding, of which scale-free optimizers make whole steps.

The key bias of an attention, or a bias before BatchNorm, does not change the loss: its gradient is what rounding leaves of a
sum that is zero.  Adam divides it by its own size, and so moves the parameter as far as any other, in a direction that depends
on the order of the sum.  No second run of the *original* would agree with the first there.

In: the gradients of each step, element by element.  Out: such elements, those below `RESOLVED` rounding units of the largest
element of all gradients in every step so far and on both sides, start the next step with the original's values, and a step's
record says how far they were apart, for `compare` to judge.  In float64 real gradients lie many powers of ten above that limit.
In float32 they need not: what is found there counts only if a run in float64 says so too (`check`).
"""

from __future__ import annotations

import math
from typing import Any

import torch

from . import fingerprint
from .resync import load, save
from .session import Session

RESOLVED = 1024.0  # rounding units; measured: at most 10 for such elements, 1e8 and more for others (float64)
SUSPECT = 1e-6  # float32: parameters that are further apart than this are looked at


class Noise:
    """What is known of each optimizer's gradients."""

    def __init__(self, session: Session) -> None:
        self.session = session
        # optimizer -> per parameter: elements that were below the limit in all steps so far; None: there are none
        self.quiet: dict[int, list[Any]] = {}
        self.noisy: dict[int, set[int]] = {}  # .. parameters of which one of those was not zero

    def look(self, number: int, parameters: list[Any]) -> None:
        """The gradients that the optimizer is about to use."""
        if not self.session.settings.float64:
            return
        bound = limit(parameters)
        known = self.quiet.setdefault(number, [True] * len(parameters))
        noisy = self.noisy.setdefault(number, set())
        for i, parameter in enumerate(parameters[: len(known)]):
            if known[i] is None or not _is_plain(parameter.grad) or not bound:
                continue
            size = parameter.grad.detach().abs()
            quiet = size <= bound
            if known[i] is not True:
                quiet = quiet & known[i] if quiet.shape == known[i].shape else torch.zeros_like(quiet)
            known[i] = quiet if bool(quiet.any()) else None
            if known[i] is None:
                noisy.discard(i)
            elif i not in noisy and bool((quiet & (size > 0)).any()):
                noisy.add(i)

    def settle(self, number: int, parameters: list[Any]) -> dict[str, Any]:
        """After the step, before it is recorded as done: {place: how far its noisy elements were from the original's}."""
        if not self.session.settings.float64:
            return self._suspects(parameters) if self.session.after else {}
        name = f"noise{self.session.step}"
        known, noisy = self.quiet.get(number, []), self.noisy.get(number, set())
        if not self.session.after:
            if noisy:
                kept = {str(i): (known[i], parameters[i].detach().clone()) for i in sorted(noisy)}
                save(self.session, name, {"shapes": _shapes(parameters), "values": kept})
            return {}
        wanted = load(self.session, name)
        if wanted is None or wanted["shapes"] != _shapes(parameters):
            return {}
        found = {}
        for place, (quiet, value) in wanted["values"].items():
            own = known[int(place)] if int(place) < len(known) else None
            if own is not None:
                quiet = quiet if own is True else quiet & own
                found[place] = _take(parameters[int(place)], value, quiet, write=True)
        return found

    def _suspects(self, parameters: list[Any]) -> dict[str, Any]:
        """float32: the original's values come with `resync`, after this; here only how far they are apart is noted."""
        wanted = load(self.session, f"step{self.session.step}")
        if wanted is None or [list(v.shape) for v in wanted["parameters"]] != _shapes(parameters):
            return {}
        found: dict[str, Any] = {}
        bound = None
        for i, (parameter, value) in enumerate(zip(parameters, wanted["parameters"], strict=True)):
            if not _is_plain(parameter.grad) or parameter.dtype != value.dtype or not parameter.is_floating_point():
                continue
            apart = float(torch.linalg.vector_norm(parameter.detach() - value))
            if apart > SUSPECT * float(torch.linalg.vector_norm(value)):
                bound = limit(parameters) if bound is None else bound
                found[str(i)] = _take(parameter, value, parameter.grad.detach().abs() <= bound, write=False)
        return found


def limit(parameters: list[Any]) -> float:
    """The size below which an element of these gradients may be rounding."""
    largest, unit = 0.0, 0.0
    for parameter in parameters:
        if _is_plain(parameter.grad) and parameter.grad.numel():
            size = float(torch.linalg.vector_norm(parameter.grad.detach(), math.inf))
            if math.isfinite(size):
                largest, unit = max(largest, size), max(unit, torch.finfo(parameter.grad.dtype).eps)
    return RESOLVED * unit * largest


def _is_plain(gradient: Any) -> bool:
    return gradient is not None and not gradient.is_sparse and gradient.dtype in (torch.float32, torch.float64)


def _shapes(parameters: list[Any]) -> list[list[int]]:
    return [list(p.shape) for p in parameters]


def _take(parameter: Any, value: Any, quiet: Any, write: bool) -> dict[str, Any]:
    """The parameter with the original's values in the quiet places, described; and how far those places were apart."""
    with torch.no_grad():
        rest = torch.where(quiet, value, parameter.detach())
        apart = float(torch.linalg.vector_norm(rest - parameter.detach()))
        described = {
            "rest": fingerprint.describe(rest),
            "apart": apart,
            "count": int(quiet.sum()),
            "of": parameter.numel(),
        }
        if write and apart > 0.0:
            parameter.data.copy_(rest)  # .data: another model's pending graph stays valid
    return described
