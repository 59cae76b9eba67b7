"""Which networks an evaluation runs: the wrapped model, the network inside it, or a copy of it.

In: the calls of a loop.  Out: whether each runs the wrapped model whatever the loop's function is given, and which networks have
statistics of their own on each process, as a copy that averages the model's has, and the network that is called past its wrapper.
"""

from __future__ import annotations

import ast

from migrator.facts.loaders.batch_loops import loaders_of
from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted, names_in
from migrator.facts.python.syntax import Module
from migrator.facts.randomness.random_draws import draws_shared
from migrator.facts.wraps.past_wrapper import given_for, is_past_wrapper

_COPIES = frozenset(["deepcopy", "AveragedModel", "ModelEma", "ModelEmaV2", "ModelEmaV3", "ExponentialMovingAverage"])


def is_always_wrapped(program: Program, module: Module, node: ast.AST, depth: int = 4) -> bool:
    """True when an expression holds the wrapped model itself in every call of its function."""
    if not depth or not program.is_wrapped(module, node) or is_copy(program, module, node):
        return False
    if is_past_wrapper(program, module, node):
        return False
    return all(
        is_always_wrapped(program, caller, given, depth - 1) for caller, given in given_for(program, module, node)
    )


def is_copy(program: Program, module: Module, node: ast.AST) -> bool:
    """True when an expression may hold a copy of a model."""
    return any(value.name.rpartition(".")[2] in _COPIES for value in program.resolver.values(module, node))


def unshared_networks(program: Program, module: Module, loop: ast.For) -> tuple[str, ...]:
    """What the loop calls although no wrapper gives all processes the same statistics of it, as it is spelled there."""
    found: dict[str, None] = {}
    bound = {n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for node in ast.walk(loop):
        func = node.func if isinstance(node, ast.Call) else None
        if not isinstance(func, ast.Name | ast.Attribute) or dotted(func) is None or names_in(func) & bound:
            continue
        if is_copy(program, module, func) or is_past_wrapper(program, module, func):
            found[module.segment(func)] = None
    return tuple(found)


def only_evaluates(program: Program, module: Module, call: ast.Call) -> bool:
    """True for a function that runs the model on other batches, and draws from no stream that goes on behind it."""
    callee = program.resolver.callee(module, call)
    if callee is None or not isinstance(callee[1], ast.FunctionDef):
        return False
    runs = any(isinstance(n, ast.Call) and program.is_wrapped(callee[0], n.func) for n in ast.walk(callee[1]))
    return runs and not draws_shared(program, module, call)


def is_evaluation_beside(program: Program, module: Module, loop: ast.For, known: set[str]) -> bool:
    """True for a loop inside of a step that goes over another loader, makes no step and reads nothing of the step's batch."""
    nodes = list(ast.walk(loop))
    if any(isinstance(n, ast.Attribute) and n.attr in ("backward", "step") for n in nodes):
        return False
    given = {name: module.span(loop.target).start for name in names_in(loop.target)}
    for node in sorted((n for n in nodes if isinstance(n, ast.Assign)), key=lambda n: module.span(n).start):
        if module.enclosing(node, ast.If, ast.Try) in nodes:
            continue
        for name in {n for target in node.targets for n in names_in(target)} - names_in(node.value):
            given.setdefault(name, module.span(node).end)
    late = module.span(loop).end
    reads = [n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in known]
    own = all(module.span(n).start >= given.get(n.id, late) for n in reads)
    return own and bool(loaders_of(program, module, loop))
