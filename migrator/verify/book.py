"""Names and numbers of what a run trains: optimizers, parameters, buffers."""

from __future__ import annotations

from typing import Any

from .session import Session


def parameters_of(optimizer: Any) -> list[Any]:
    """All parameters of an optimizer, in the order of its groups."""
    return [p for group in optimizer.param_groups for p in group["params"]]


class Book:
    """Names and numbers of optimizers and parameters; the optimizer's position is a parameter's identity."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.made: list[Any] = []  # optimizers in order of creation
        self.stepped: list[Any] = []  # optimizers in order of their first step
        self.announced: dict[int, list[str]] = {}

    def number(self, optimizer: Any) -> int:
        for i, known in enumerate(self.stepped):
            if known is optimizer:
                return i
        self.stepped.append(optimizer)
        return len(self.stepped) - 1

    def names(self) -> dict[int, str]:
        """id of a parameter -> its name, relative to the wrapped model it belongs to."""
        found: dict[int, str] = {}
        for wrap in self.session.wraps:
            for name, parameter in wrap.module.named_parameters():
                found.setdefault(id(parameter), name)
        return found

    def positions(self, optimizer: Any) -> list[tuple[str, Any]]:
        """The optimizer's parameters in order, named; announced once, and again when they change."""
        known, number = self.names(), self.number(optimizer)
        listed: list[tuple[str, Any]] = []
        owned = []
        for g, group in enumerate(optimizer.param_groups):
            for p, parameter in enumerate(group["params"]):
                owned.append(id(parameter) in known)
                listed.append((known.get(id(parameter), f"optimizer {number}, group {g}, parameter {p}"), parameter))
        signature = [f"{name} {tuple(p.shape)} {p.requires_grad}" for name, p in listed]
        if self.announced.get(number) != signature:
            self.announced[number] = signature
            self.session.record(
                "names",
                opt=number,
                names=[n for n, _ in listed],
                shapes=[list(p.shape) for _, p in listed],
                owned=owned,
                trained=[bool(p.requires_grad) for _, p in listed],
            )
        return listed

    def buffers(self) -> dict[str, Any]:
        """ "wrap number:name" -> buffer of the wrapped models."""
        return {
            f"{i}:{name}": buffer
            for i, wrap in enumerate(self.session.wraps)
            for name, buffer in wrap.module.named_buffers()
        }
