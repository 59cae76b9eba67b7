"""Losses that are reduced by `size_average` and `reduce`.

In: a linked program.  Out: the calls, and the reduction that they mean.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from migrator.facts.program import Program
from migrator.facts.python.nodes import argument
from migrator.facts.python.syntax import Span

_OLD = ("size_average", "reduce")


@dataclass(frozen=True, slots=True)
class OldReduction:
    """A call, the old arguments that it gives, and the word of `reduction` for them."""

    at: Span
    given: tuple[str, ...]
    word: str


def old_reductions(program: Program) -> Iterator[OldReduction]:
    """All of them whose values are written out."""
    for module, call in program.calls():
        given = {name: argument(call, name, None) for name in _OLD}
        named = tuple(name for name, value in given.items() if value is not None)
        if not named or not program.external(module, call).startswith("torch.nn."):
            continue
        if any(value is not None and not isinstance(value, ast.Constant) for value in given.values()):
            continue
        values = {name: value.value if isinstance(value, ast.Constant) else None for name, value in given.items()}
        word = "none" if values["reduce"] is False else "sum" if values["size_average"] is False else "mean"
        yield OldReduction(module.span(call), named, word)
