"""Wrappers that are made only to evaluate: `if n_gpu > 1 and not isinstance(model, DataParallel): model = DataParallel(model)`.

In: a `Program`.  Out: the wraps whose calls are all without a backward pass, beside one that is trained.  Where every process
evaluates by itself there is nothing to wrap: DistributedDataParallel is for gradients.
"""

from __future__ import annotations

import ast

from migrator.facts.model import Wrap
from migrator.facts.program import Program
from migrator.facts.python.nodes import FunctionNode, dotted
from migrator.facts.python.syntax import Module, Span


def evaluation_wraps(program: Program) -> list[Wrap]:
    """Wraps in functions that make no step, under the name that is wrapped; none where no other one is trained."""
    found = [wrap for wrap in program.wraps if _only_evaluates(program, wrap)]
    return found if len(found) < len(program.wraps) else []


def training_wraps(program: Program) -> list[Wrap]:
    """All other wraps."""
    evaluating = evaluation_wraps(program)
    return [wrap for wrap in program.wraps if wrap not in evaluating]


def removed(program: Program, wrap: Wrap) -> Span:
    """What goes with such a wrap: its statement, with the `if` around it where nothing else is in it."""
    return program.module_at(wrap.at).emptied_by(wrap.statement)


def _only_evaluates(program: Program, wrap: Wrap) -> bool:
    module = program.module_at(wrap.at)
    node = next(n for n in module.nodes if isinstance(n, ast.Call) and module.span(n) == wrap.at)
    function = module.enclosing_function(node)
    if wrap.kind != "class" or function is None or wrap.target != wrap.inner_text or not wrap.target.isidentifier():
        return False
    if wrap.conditional is not None or wrap.outer != wrap.at or wrap.target in module.scopes[function].globals:
        return False
    if not all(_chooses_nothing_else(module, guard.at, wrap) for guard in wrap.guards if not guard.is_entry):
        return False
    users = {owner for owner in _users(program, node)}
    return (
        bool(users) and not any(_steps(owner) for owner in (function, *users)) and not _leaves(module, function, wrap)
    )


def _chooses_nothing_else(module: Module, guard: Span, wrap: Wrap) -> bool:
    node = module.statement_at(guard)
    return isinstance(node, ast.If) and not node.orelse and [module.span(s) for s in node.body] == [wrap.statement]


def _users(program: Program, made: ast.Call) -> list[ast.AST]:
    """The functions, or modules, in which the wrapper is called."""
    users: list[ast.AST] = []
    for module, call in program.calls():
        func = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == "forward" else call.func
        if any(value.node is made for value in program.resolver.values(module, func)):
            users.append(next((a for a in module.ancestors(call) if isinstance(a, FunctionNode)), module.tree))
    return users


def _steps(owner: ast.AST) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr in ("backward", "step") for n in ast.walk(owner))


def _leaves(module: Module, function: ast.AST, wrap: Wrap) -> bool:
    """True where the wrapper is given back, or kept: by then it may be trained."""
    for node in ast.walk(function):
        given = node.value if isinstance(node, ast.Return | ast.Yield | ast.Assign) else None
        if given is not None and dotted(given) == wrap.target:
            return True
    return False
