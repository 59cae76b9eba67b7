"""Calls that run a wrapped model: of the model itself, or of a function that does nothing but give it its arguments.

In: a call.  Out: what is called as the model there, with its module.
"""

from __future__ import annotations

import ast

from migrator.facts.program import Program
from migrator.facts.python.syntax import Module


def model_called(program: Program, module: Module, call: ast.Call) -> tuple[Module, ast.expr] | None:
    """The wrapped model that a call runs once, with the call's own arguments; None where it does more or something else."""
    if program.is_wrapped(module, call.func):
        return module, call.func
    callee = program.resolver.callee(module, call)
    if callee is None or not isinstance(callee[1], ast.FunctionDef) or callee[1].decorator_list:
        return None
    owner, function = callee[0], callee[1]
    body = [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    inner = body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None
    if not isinstance(inner, ast.Call) or not program.is_wrapped(owner, inner.func):
        return None
    given = [*inner.args, *(keyword.value for keyword in inner.keywords)]
    own = {argument.arg for argument in [*function.args.args, *function.args.kwonlyargs]}
    return (owner, inner.func) if all(isinstance(g, ast.Name) and g.id in own for g in given) else None
