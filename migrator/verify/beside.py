"""Dropout beside a wrapped part of a model: the original draws it for the whole batch, a model that is wrapped whole for each share.

In: the session of the original's run, where the converted program wraps the whole.  Out: on each share of the batch, dropout beside
the part goes on drawing from its replica's stream, as it does in the process that has that share.  Only the seeds are touched.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn import functional

from .determinism import get_states, kept_states, set_states
from .session import Session

FUNCTIONS = ("dropout", "alpha_dropout", "feature_alpha_dropout", "dropout1d", "dropout2d", "dropout3d")


@dataclass(slots=True)
class _Forward:
    """One forward pass of a model of which a part is wrapped: each replica's rows, and how far its stream has come."""

    whole: Any
    rows: list[int] = field(default_factory=list)
    states: list[tuple[Any, Any, Any]] = field(default_factory=list)


class Beside:
    """What the replicas of the latest wrapped part leave behind for the rest of the model."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.active = session.settings.wholes and not session.after
        self.forward: _Forward | None = None
        if self.active:
            for name in FUNCTIONS:
                setattr(functional, name, self._patched(getattr(functional, name)))

    def begin(self, wrap: Any, seeded: bool) -> None:
        """A wrapper is called; nothing is to be done for one that no other module holds, or that is not trained."""
        if self.active:
            outer = _modules_around()
            whole = outer[-1] if seeded and outer and outer[-1] is not wrap else None
            self.forward = _Forward(whole) if whole is not None else None

    def keep(self, inputs: Any, dim: int) -> None:
        """A replica has computed its rows; its generators stand where the rest of the model goes on."""
        first = next((x for x in inputs if isinstance(x, torch.Tensor)), None) if isinstance(inputs, tuple) else inputs
        if self.forward is not None and isinstance(first, torch.Tensor) and first.dim() > dim:
            self.forward.rows.append(int(first.size(dim)))
            self.forward.states.append(get_states())

    def _patched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        default = inspect.signature(function).parameters["training"].default

        def dropout(input: Any, p: float = 0.5, training: bool = default, inplace: bool = False) -> Any:
            forward = self.forward
            if not training or forward is None or self.session.depth or not self._is_in(forward, input):
                return function(input, p, training, inplace)
            parts = []
            with kept_states():
                for replica, rows in enumerate(input.split(forward.rows)):
                    set_states(forward.states[replica])
                    parts.append(function(rows, p, training, False))
                    forward.states[replica] = get_states()
            whole = torch.cat(parts)
            return input.copy_(whole) if inplace else whole

        return dropout

    @staticmethod
    def _is_in(forward: _Forward, input: Any) -> bool:
        rows = input.dim() > 0 and input.size(0) == sum(forward.rows)
        return rows and torch.is_grad_enabled() and any(module is forward.whole for module in _modules_around())


def _modules_around() -> list[Any]:
    """The modules whose calls are being run, innermost first."""
    found, frame = [], sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "_call_impl":
            found.append(frame.f_locals.get("self"))
        frame = frame.f_back  # type: ignore[assignment]
    return found
