"""Evaluations that average what each device gave: a loss that the model itself computes, one for each replica.

In: a `Program`.  Out: the places of such means.  Where every process evaluates whole batches, the model computes one loss of the
whole batch; with samples compared, weighted or left out in it, that is another number than the mean of the replicas'.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from migrator.facts.program import Program
from migrator.facts.python.nodes import names_in
from migrator.facts.python.syntax import Module
from migrator.facts.wraps.past_wrapper import is_past_wrapper

_REDUCES = frozenset(["mean", "sum"])


@dataclass(frozen=True, slots=True)
class Averaged:
    """A call of the wrapped model in an evaluation, and the mean or sum of what it gives."""

    module: Module
    call: ast.Call
    mean: ast.Call
    loop: ast.For | ast.While


def averaged_outputs(program: Program) -> Iterator[Averaged]:
    """`loss.mean()` and `loss.sum()` of what the wrapped model gives, in a loop without a backward pass."""
    for module, call in program.calls():
        loop = module.enclosing(call, ast.For, ast.While)
        if not isinstance(loop, ast.For | ast.While) or _steps(loop) or not program.is_wrapped(module, call.func):
            continue
        if is_past_wrapper(program, module, call.func) or program.is_unreached(module, call):
            continue
        outputs = _outputs(module, call, loop)
        for node in ast.walk(loop):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _REDUCES:
                if not node.args and not node.keywords and _plain_name(node.func.value) in outputs:
                    yield Averaged(module, call, node, loop)
                    break


def _steps(loop: ast.AST) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "backward" for n in ast.walk(loop))


def _outputs(module: Module, call: ast.Call, loop: ast.AST) -> set[str]:
    """The names that hold outputs of a call, also after `loss = outputs[0]`."""
    statement = module.statement(call)
    names = {n for t in statement.targets for n in names_in(t)} if isinstance(statement, ast.Assign) else set()
    for node in ast.walk(loop):
        if isinstance(node, ast.Assign) and _plain_name(node.value) in names:
            names |= {n for target in node.targets for n in names_in(target)}
    return names


def _plain_name(node: ast.AST) -> str | None:
    """The name of `x`, `x[0]` and `x.loss`."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
