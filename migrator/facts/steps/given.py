"""What a loop over a loader gives to each turn.

In: a loop.  Out: the names that hold a batch or parts of it, and the calls that draw it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from migrator.facts.loaders.batch_loops import BatchLoop, draws_in
from migrator.facts.loaders.iterators import loaders_in
from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted, names_in
from migrator.facts.python.syntax import Module


@dataclass(frozen=True, slots=True)
class Given:
    """The names that hold a batch or parts of it; `tensors` are those that hold one tensor, as far as can be seen.

    `draws` are the calls that give a batch: `next(it)`.
    """

    names: set[str]
    tensors: set[str]
    draws: frozenset[ast.Call] = frozenset()


def given_by(program: Program, module: Module, loop: BatchLoop | ast.FunctionDef) -> Given:
    """What a loop over a loader gives to each turn."""
    if isinstance(loop, ast.FunctionDef):
        return Given(set(), set())
    draws = draws_in(program, module, loop)
    drawn = (
        Given(set(draws.names), set(draws.parts), frozenset(draws.calls)) if draws is not None else Given(set(), set())
    )
    if isinstance(loop, ast.While) or (draws is not None and not loaders_in(program, module, loop.iter)):
        return drawn
    target = loop.target
    if isinstance(target, ast.Tuple) and len(target.elts) == 2 and _is_enumerate(module, loop.iter):
        target = target.elts[1]
    names = names_in(target)
    tensors = set(names) if isinstance(target, ast.Tuple | ast.List) else set()
    return Given(names | drawn.names, tensors | drawn.tensors, drawn.draws)


def _is_enumerate(module: Module, node: ast.expr) -> bool:
    """`enumerate(loader)`, also inside of `tqdm()`, and under a name."""
    if isinstance(node, ast.Call) and dotted(node.func) == "enumerate":
        return True
    inner = node.args[0] if isinstance(node, ast.Call) and node.args else node
    if isinstance(inner, ast.Call):
        return dotted(inner.func) == "enumerate"
    if isinstance(inner, ast.Name):
        found = module.lookup(inner.id, module.scope_of.get(inner, module.scope))
        values = [binding.value for binding in (found[1] if found else [])]
        return any(isinstance(value, ast.Call) and dotted(value.func) == "enumerate" for value in values)
    return False
