"""What a program does with DataParallel's replicas, or relies on in them.

In: a linked program.  Out: places.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrator.facts.program import Program
from migrator.facts.python.nodes import argument, dotted
from migrator.facts.python.syntax import Span


def replica_callbacks(program: Program) -> Iterator[tuple[Span, Span]]:
    """Statements that only hand the wrapped model to a function that replaces its `replicate`: the call and the statement."""
    for module, call in program.calls():
        statement = module.statement(call)
        if not isinstance(statement, ast.Expr) or statement.value is not call:
            continue
        if not any(program.is_wrapped(module, argument) for argument in call.args):
            continue
        callee = program.resolver.callee(module, call)
        if callee is not None and _replaces_replicate(callee[1]):
            yield module.span(call), module.span(statement)


def _replaces_replicate(function: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr == "replicate" and isinstance(node.ctx, ast.Store)
        for node in ast.walk(function)
    )


def calls_under_bfloat16(program: Program) -> Iterator[Span]:
    """Contexts of autocast in bfloat16 around calls of the wrapped model; torch's replicas entered one in float16."""
    for module in program.modules:
        for node in module.nodes:
            for item in node.items if isinstance(node, ast.With) else ():
                call = item.context_expr
                if not isinstance(call, ast.Call) or not (dotted(call.func) or "").endswith("autocast"):
                    continue
                wanted = argument(call, "dtype", None)
                if wanted is None or not (dotted(wanted) or "").endswith("bfloat16"):
                    continue
                assert isinstance(node, ast.With)
                inside = (n for s in node.body for n in ast.walk(s) if isinstance(n, ast.Call))
                if any(program.is_wrapped(module, n.func) for n in inside):
                    yield module.span(call)
