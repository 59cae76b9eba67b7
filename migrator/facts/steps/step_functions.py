"""Functions that make one step of a training loop.

In: a loop and the one call in it of such a function.  Out: which of its parameters hold the batch, and obstacles where the loop, or
another function, looks at the batch as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from migrator.facts.loaders.batch_loops import BatchLoop
from migrator.facts.python.nodes import argument, has_unpacking
from migrator.facts.python.syntax import Module
from migrator.facts.steps.flow import Flow
from migrator.facts.steps.given import Given
from migrator.facts.steps.left_over import read_behind
from migrator.facts.steps.obstacles import Obstacles


@dataclass(frozen=True, slots=True)
class Step:
    """A function that makes one step, and its one call in the loop over the loader."""

    module: Module
    function: ast.FunctionDef
    call: ast.Call
    is_method: bool


def handed(reader: Obstacles, module: Module, loop: BatchLoop, step: Step) -> Given | None:
    """The parameters of a step function that hold the batch; the loop itself must not look at it further."""
    flow = Flow(reader, module, loop)
    statement = module.statement(step.call)
    if module.parents[statement] is not loop:
        flow.stop(step.call, "the step is not made for every batch")
        return None
    flow.read(loop.body[: loop.body.index(statement)])
    names = [a.arg for a in step.function.args.args][1 if step.is_method else 0 :]
    kinds = {}
    for i, name in enumerate(names):
        value = argument(step.call, name, i)
        if value is not None and flow.kind(value) is not None:
            kinds[name] = flow.kind(value), isinstance(value, ast.Name) and value.id in flow.tensors
    if has_unpacking(step.call) or any(kind != "rows" for kind, _ in kinds.values()):
        flow.stop(step.call, "what the step is given was not understood")
        return None
    start, made = module.span(statement).start, module.span(step.call)
    late = [
        n
        for n in ast.walk(loop)
        if isinstance(n, ast.Name) and flow.kinds.get(n.id) and isinstance(n.ctx, ast.Load)
        if module.span(n).start >= start and not made.contains(module.span(n))
    ]
    late += [n for n in seen_from_functions(module, loop, set(flow.kinds))]
    if late:
        flow.stop(late[0], f"{late[0].id} is looked at outside of the step")
        return None
    kept = [*flow.figures, *(name for name in flow.kinds if read_behind(module, loop, name))]
    if kept:
        flow.stop(step.call, f"{kept[0]} would cover this process's share only")
        return None
    return Given(set(kinds), {name for name, (_, is_tensor) in kinds.items() if is_tensor})


def seen_from_functions(module: Module, loop: BatchLoop, names: set[str]) -> Iterator[ast.Name]:
    """Reads of a loop's names in functions that are made outside of it."""
    scope, place = module.scope_of.get(loop, module.scope), module.span(loop)
    for node in module.nodes:
        if isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load):
            function = module.enclosing(node, ast.FunctionDef, ast.Lambda)
            if function is None or function is module.enclosing(loop, ast.FunctionDef, ast.Lambda):
                continue
            found = module.lookup(node.id, module.scope_of.get(node, module.scope))
            if found is not None and found[0] is scope and not place.contains(module.span(node)):
                yield node
