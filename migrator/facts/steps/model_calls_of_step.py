"""Where a step calls the wrapped models.

In: a loop, or the function that makes a step.  Out: the calls, the statement that they are all in or beside, and what the step does
before it; obstacles where the outputs of the calls could not be put together.
"""

from __future__ import annotations

import ast

from migrator.facts.networks.statistics import may_keep_statistics
from migrator.facts.python.nodes import names_in
from migrator.facts.python.syntax import Module
from migrator.facts.steps.batch_values import BatchValues
from migrator.facts.steps.model_calls import model_called
from migrator.facts.wraps.past_wrapper import is_past_wrapper

_NO_CALLS = frozenset(["train", "eval", "state_dict", "zero_grad", "parameters", "named_parameters", "load_state_dict"])


def model_calls(values: BatchValues) -> list[ast.Call]:
    """The calls of wrapped models in a step, in simple statements."""
    calls = [n for n in ast.walk(values.loop) if isinstance(n, ast.Call) and _is_forward(values, n)]
    calls.sort(key=lambda call: values.module.span(call).start)
    statements = [values.module.statement(call) for call in calls]
    if not calls or not all(isinstance(s, ast.Assign | ast.AugAssign | ast.Expr) for s in statements):
        values.stop(values.loop, "the model's call was not found")
        return []
    models = [(call, model_called(values.program, values.module, call)) for call in calls]
    past = [call for call, model in models if model is not None and is_past_wrapper(values.program, *model)]
    if past:
        values.stop(past[0], "the model is run past its wrapper")
        return []
    return calls


def _is_forward(values: BatchValues, call: ast.Call) -> bool:
    """A call of the wrapped model, or of its `forward`, which exchanges gradients just the same."""
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr == "forward":
        func = func.value
    elif isinstance(func, ast.Attribute) and func.attr in _NO_CALLS:
        return False
    return (
        values.program.is_wrapped(values.module, func) or model_called(values.program, values.module, call) is not None
    )


def calling_statement(values: BatchValues, calls: list[ast.Call]) -> ast.stmt | None:
    """The first of the calls' statements, or the `if` of which each branch has one call."""
    statements = [values.module.statement(call) for call in calls]
    block = values.module.block(statements[0])
    if all(statement in block for statement in statements):
        between = block[block.index(statements[0]) : block.index(statements[-1])]
        touched = any(_reads(s, values.targets) for s in between if s not in statements)
        made = {n.id for s in between for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        inner = [n for call in calls for n in ast.walk(call) if n in calls and n is not call]
        if inner or any(made & names_in_arguments(call) for call in calls[1:]):
            values.stop(calls[-1], "a model is given the outputs of another")
            return None
        if not touched:
            models = [values.module.segment(call.func) for call in calls]
            if len(set(models)) < len(models) and may_keep_statistics(values.program):
                values.stop(calls[-1], "the model's statistics would change between two calls in one step")
                return None
            return statements[0]
    for ancestor in values.module.ancestors(calls[0]):
        if ancestor is values.loop:
            break
        if isinstance(ancestor, ast.If) and len(calls) > 1 and _has_one_in_each(ancestor, statements) == len(calls):
            return ancestor
    values.stop(calls[-1], "the model is called more than once in a step")
    return None


def _has_one_in_each(node: ast.If, statements: list[ast.stmt]) -> int:
    """The number of calls in the branches of an `if`, or nothing where a branch has none or several."""
    found = 0
    for block in filter(None, (node.body, node.orelse)):  # without an `else`, all processes make no call alike
        if len(block) == 1 and isinstance(block[0], ast.If):
            inner = _has_one_in_each(block[0], statements)
        else:
            inner = sum(statement in block for statement in statements)
            inner = inner if inner == 1 else 0
        if not inner:
            return 0
        found += inner
    return found


def statements_before(values: BatchValues, statement: ast.stmt) -> list[ast.stmt] | None:
    """Everything that a step does before the call's statement, which must be run in every step."""
    found: list[ast.stmt] = []
    current: ast.stmt = statement
    while True:
        block = values.module.block(current)
        found = [*block[: block.index(current)], *found]
        parent = values.module.parents[current]
        if parent is values.loop:
            return found
        if not isinstance(parent, ast.With):
            values.stop(statement, "the model is not called in every step")
            return None
        current = parent


def branch_before(module: Module, anchor: ast.stmt, call: ast.Call) -> list[ast.stmt]:
    """What a branch does before its call."""
    statement = module.statement(call)
    if not isinstance(anchor, ast.If):
        return []
    block = module.block(statement)
    return block[: block.index(statement)]


def _reads(statement: ast.stmt, names: set[str]) -> bool:
    """True when a statement reads one of the names."""
    return any(isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in names for n in ast.walk(statement))


def names_in_arguments(call: ast.Call) -> set[str]:
    """Names among the arguments of a call."""
    return {name for part in [*call.args, *(k.value for k in call.keywords)] for name in names_in(part)}
