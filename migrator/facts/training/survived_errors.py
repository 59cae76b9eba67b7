"""Errors of the backward pass that a program survives.

In: a linked program.  Out: the `try` statements that catch them and go on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrator.facts.program import Program
from migrator.facts.python.nodes import FunctionNode, dotted
from migrator.facts.python.syntax import Module, Span

_OF_ALL = frozenset({"KeyboardInterrupt", "SystemExit", "StopIteration", "EOFError"})
_EXITS = frozenset({"sys.exit", "exit", "quit", "os._exit"})
_DEPTH = 3


def survived_backward_errors(program: Program) -> Iterator[Span]:
    """Each `try` around a backward pass, also around calls of the function that has it, with a handler that goes on."""
    seen: set[tuple[Module, ast.Try]] = set()
    for module, call in program.calls():
        if not (isinstance(call.func, ast.Attribute) and call.func.attr == "backward"):
            continue
        found = _survived(program, module, call, 0)
        if found is not None and found not in seen:
            seen.add(found)
            yield found[0].span(found[1])


def _survived(program: Program, module: Module, node: ast.AST, depth: int) -> tuple[Module, ast.Try] | None:
    """The `try` in which an error of the node ends, also around the calls of its function."""
    child = node
    for ancestor in module.ancestors(node):
        if isinstance(ancestor, ast.Try) and child in ancestor.body:
            if any(_catches(handler) and not _raises(handler) for handler in ancestor.handlers):
                return module, ancestor
        if isinstance(ancestor, FunctionNode):
            if depth < _DEPTH:
                sites = (_survived(program, m, c, depth + 1) for m, c in program.resolver.call_sites(ancestor))
                return next((site for site in sites if site is not None), None)
            return None
        child = ancestor
    return None


def _catches(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or dotted(kind) not in _OF_ALL for kind in kinds)


def _raises(handler: ast.ExceptHandler) -> bool:
    """True when the handler ends with the error, or with the program."""
    last = handler.body[-1]
    ends = isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and dotted(last.value.func) in _EXITS
    return (isinstance(last, ast.Raise) or ends) and not any(
        isinstance(n, ast.Return | ast.Continue) for n in ast.walk(handler)
    )
