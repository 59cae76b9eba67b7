"""Losses of single batches that a program shows while it trains.

In: a linked program and its batch loop.  Out: the calls that show one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted, names_in
from migrator.facts.python.syntax import Span

_SHOWS = re.compile(r"(^|\.)(print|info|debug|write|set_postfix|set_description|add_scalar|add_scalars|log)$")


def shown_losses(program: Program, loop: Span) -> Iterator[Span]:
    """Calls in the loop that are given what `backward` is called on, or for."""
    module = program.module_at(loop)
    inside = [n for n in module.nodes if isinstance(n, ast.Call) and loop.contains(module.span(n))]
    losses: set[str] = set()
    for call in inside:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "backward":
            losses |= names_in(call.func.value) | {n for a in call.args for n in names_in(a)}
    for call in inside:
        if not _SHOWS.search(dotted(call.func) or ""):
            continue
        given = [*call.args, *(k.value for k in call.keywords)]
        if any(losses & names_in(part) for part in given):
            yield module.span(call)
