"""The loops that make a step for each batch: over a loader, or drawing from iterators of loaders.

In: a `Program` and a loop, or a place in a step.  Out: the loop, the calls by which its turns draw their batches, the names that
these give, and the loaders behind them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from migrator.facts.loaders.iterators import Loaders, drawn_from, is_inside_iterator, loaders_behind, loaders_in
from migrator.facts.loaders.loaders import is_counting
from migrator.facts.program import Program
from migrator.facts.python.nodes import FunctionNode, dotted, names_in
from migrator.facts.python.syntax import Module

BatchLoop = ast.For | ast.While


@dataclass(frozen=True, slots=True)
class Draws:
    """`x, y = next(it)` in the turns of a loop: the calls, their names, and those of them that hold one part of a batch."""

    calls: tuple[ast.Call, ...]
    names: frozenset[str]
    parts: frozenset[str]


def batch_loop(program: Program, module: Module, node: ast.AST) -> BatchLoop | None:
    """The nearest loop around a place in a step that draws batches, or goes over something that may be a loader."""
    for ancestor in module.ancestors(node):
        if isinstance(ancestor, FunctionNode | ast.ClassDef):
            return None
        if isinstance(ancestor, ast.For) and not is_counting(ancestor.iter):
            return ancestor
        if isinstance(ancestor, ast.For | ast.While) and draws_in(program, module, ancestor) is not None:
            return ancestor
    return None


def loaders_of(program: Program, module: Module, loop: BatchLoop) -> Loaders:
    """The DataLoader calls whose batches a loop takes; none where it may take something else."""
    draws = draws_in(program, module, loop)
    behind = [loaders_behind(program, module, call_source(call)) for call in draws.calls] if draws is not None else []
    over = loaders_in(program, module, loop.iter) if isinstance(loop, ast.For) else []
    return list(dict.fromkeys([*over, *(one for found in behind for one in found)]))


def call_source(call: ast.Call) -> ast.expr:
    """What a call draws from."""
    source = drawn_from(call)
    assert source is not None
    return source


def draws_in(program: Program, module: Module, loop: BatchLoop) -> Draws | None:
    """How each turn of a loop draws its batches: in statements of its own, before anything looks at them."""
    assigned: list[ast.Assign] = []
    for statement in loop.body:
        assigned += _drawing(statement)
    calls = [a.value for a in assigned if isinstance(a.value, ast.Call)]
    if not calls or not all(loaders_behind(program, module, call_source(call)) for call in calls):
        return None
    names = frozenset(name for a in assigned for name in names_in(a.targets[0]))
    start = min(module.span(a).start for a in assigned)
    if any(
        isinstance(n, ast.Name) and n.id in names and module.span(n).start < start and n not in _target(loop)
        for n in ast.walk(loop)
    ):
        return None  # what the turn before drew
    parts = frozenset(name for a in assigned if isinstance(a.targets[0], ast.Tuple) for name in names_in(a.targets[0]))
    return Draws(tuple(calls), names, parts)


def _target(loop: BatchLoop) -> list[ast.AST]:
    return list(ast.walk(loop.target)) if isinstance(loop, ast.For) else []


def _drawing(statement: ast.stmt) -> list[ast.Assign]:
    """The assignments of a statement that gives its names the next batch, whichever way it goes."""
    if isinstance(statement, ast.Assign):
        return [statement] if _draws(statement) else []
    if not isinstance(statement, ast.Try) or statement.orelse or statement.finalbody or len(statement.body) != 1:
        return []
    ways = [statement.body, *(handler.body for handler in statement.handlers)]
    last = [way[-1] for way in ways]
    if not all(isinstance(s, ast.Assign) and _draws(s) for s in last):
        return []
    found = [s for s in last if isinstance(s, ast.Assign)]
    same = {ast.unparse(a.targets[0]) for a in found}
    return found if len(same) == 1 and all(_begins_again(s) for way in ways for s in way[:-1]) else []


def _draws(statement: ast.Assign) -> bool:
    target = statement.targets[0]
    elements = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    plain = len(statement.targets) == 1 and all(isinstance(e, ast.Name) for e in elements)
    return plain and drawn_from(statement.value) is not None


def _begins_again(statement: ast.stmt) -> bool:
    """`it = iter(loader)`, and counting."""
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.value, ast.Constant)
    begun = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(begun, ast.Call) and dotted(begun.func) == "iter"


def other_readers(
    program: Program, loops: Sequence[tuple[Module, BatchLoop]], calls: set[ast.Call]
) -> Iterator[tuple[Module, ast.expr | ast.stmt]]:
    """Other places than these loops that take batches of the loaders: loops, and draws outside of loops."""
    draws = [draws_in(program, module, loop) for module, loop in loops]
    own: set[ast.AST] = {call for one in draws if one is not None for call in one.calls} | {loop for _, loop in loops}
    for module in program.modules:
        for node in module.nodes:
            if node in own:
                continue
            found: Loaders = []
            if isinstance(node, ast.For) and not is_counting(node.iter):
                found = loaders_in(program, module, node.iter)
            elif (source := drawn_from(node)) is not None:
                found = loaders_behind(program, module, source)
            if any(call in calls for _, call in found) and not is_inside_iterator(module, node):
                assert isinstance(node, ast.expr | ast.stmt)
                yield module, node
