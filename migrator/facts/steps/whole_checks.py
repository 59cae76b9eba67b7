"""What must not happen in a step whose batch becomes whole where the models are called.

In: what is known of a batch, and places in the step.  Out: obstacles: parameters that meet a share of the rows, random numbers that each
process would draw for the whole batch, and reads behind the loop of what stays a share.
"""

from __future__ import annotations

import ast

from migrator.facts.networks.parameters import is_parameter
from migrator.facts.python.syntax import Module
from migrator.facts.randomness.random_draws import draws_random
from migrator.facts.steps.batch_values import BatchValues


def check_trained(values: BatchValues, nodes: list[ast.AST]) -> None:
    """What is trained outside of the models must not meet the rows before they are whole."""
    for node in nodes:
        for inner in ast.walk(node):
            if is_parameter(values.program, values.module, inner):
                values.stop(inner, f"{values.module.segment(inner)} is trained and used before the model")


def check_late(values: BatchValues, statement: ast.stmt) -> None:
    """Behind the call all processes do the same with the same numbers, unless they draw their own."""
    start = values.module.span(statement).start
    for node in ast.walk(values.loop):
        if isinstance(node, ast.Call) and values.module.span(node).start >= start:
            if draws_random(values.program, values.module, node) or _criterion_draws(values, node):
                values.stop(node, "random numbers are drawn for the whole batch")


def _criterion_draws(values: BatchValues, call: ast.Call) -> bool:
    """A loss or a module beside the model that draws, or drops out, would do so on each process in its own way."""
    if values.program.is_wrapped(values.module, call.func):
        return False
    return any(
        isinstance(value.node, ast.Call) and value.module is not None and _drops_out(values, value.module, value.node)
        for value in values.program.resolver.values(values.module, call.func)
        if value.kind in ("instance", "call")
    )


def _drops_out(values: BatchValues, module: Module, made: ast.AST, depth: int = 3) -> bool:
    """True when a module that is made here, or one inside it, draws random numbers."""
    for call in ast.walk(made):
        if not isinstance(call, ast.Call):
            continue
        name = values.program.external(module, call)
        if name.startswith("torch.nn.") and ("ropout" in name or "Transformer" in name):
            return True
        found = values.program.resolver.definition(module.qualified(call.func), module)
        if found is None or not isinstance(found[1], ast.ClassDef) or not depth:
            continue
        if draws_random(values.program, *found) or _drops_out(values, *found, depth - 1):
            return True
    return False


def check_behind(values: BatchValues, names: set[str]) -> None:
    """What stays this process's own must not be read behind the loop."""
    scope, end = values.module.scope_of.get(values.loop), values.module.span(values.loop).end
    for node in values.module.nodes:
        if isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load):
            if values.module.scope_of.get(node) is scope and values.module.span(node).start >= end:
                if not _is_bound_again(values, node, end):
                    values.stop(node, f"{node.id} would hold this process's share only")


def _is_bound_again(values: BatchValues, node: ast.Name, end: int) -> bool:
    scope, start = values.module.scope_of.get(node), values.module.span(node).start
    return any(
        isinstance(n, ast.Name)
        and n.id == node.id
        and isinstance(n.ctx, ast.Store)
        and values.module.scope_of.get(n) is scope
        and end <= values.module.span(n).start < start
        for n in values.module.nodes
    )
