"""The wraps of a program as rules read them.

In: the calls that wrap.  Out: a `Wrap` for each, with the moves, the conditions and the statement around it.
"""

from __future__ import annotations

import ast

from migrator.facts.model import Wrap
from migrator.facts.python.nodes import argument
from migrator.facts.python.syntax import Module, Span
from migrator.facts.wraps.wrap_calls import WrapCalls
from migrator.facts.wraps.wrap_guards import guards_around, is_parallel_test


def find_wraps(calls: WrapCalls) -> list[Wrap]:
    """Live DataParallel calls of torch, or of subclasses of it, in source order."""
    return [_wrap(calls, *row) for row in calls.nodes.values()]


def _wrap(calls: WrapCalls, module: Module, call: ast.Call, kind: str, name: str) -> Wrap:
    inner = argument(call, "module", calls.module_position(module, call, kind)) or call
    outer: ast.AST = call
    while True:
        parent = module.parents.get(outer)
        grand = module.parents.get(parent) if parent is not None else None
        if (
            isinstance(parent, ast.Attribute)
            and parent.attr in ("cuda", "to")
            and isinstance(grand, ast.Call)
            and grand.func is parent
        ):
            outer = grand
        else:
            break
    statement = module.statement(call)
    conditional = module.parents.get(outer)
    dim_node = argument(call, "dim", 4 if kind == "functional" else 3)
    return Wrap(
        at=module.span(call),
        outer=module.span(outer),
        statement=module.span(statement),
        inner=module.span(inner),
        inner_text=module.segment(inner),
        target=", ".join(module.segment(t) for t in statement.targets) if isinstance(statement, ast.Assign) else "",
        kind=kind,
        name=name,
        dim=module.segment(dim_node) if dim_node is not None else None,
        guards=tuple(guards_around(calls, module, statement, call)),
        conditional=_conditional(module, conditional, outer),
        submodule=isinstance(inner, ast.Attribute)
        and not (isinstance(inner.value, ast.Name) and inner.value.id == "self"),
        scope=module.scope_of.get(call, module.scope).name,
        in_class=module.scope_of.get(call, module.scope).owner_class is not None,
    )


def _conditional(module: Module, parent: ast.AST | None, outer: ast.AST) -> Span | None:
    """`nn.DataParallel(m) if multi else m`: the place of the whole conditional expression."""
    if (
        isinstance(parent, ast.IfExp)
        and outer in (parent.body, parent.orelse)
        and is_parallel_test(module.segment(parent.test))
    ):
        return module.span(parent)
    return None
