"""The first rows of a matrix laid out in one dimension, as the usual top-k accuracy has it.

In: a linked program.  Out: the calls of `view`, with the sum behind one where its result is taken apart by `[0]`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from migrator.facts.program import Program
from migrator.facts.python.syntax import Module, Span


@dataclass(frozen=True, slots=True)
class RowsView:
    """`rows[:k].view(-1)`: the call, what is called, the rows, and the sum whose one element is indexed later."""

    at: Span
    function: Span
    rows: Span
    indexed_sum: Span | None


def views_of_rows(program: Program) -> Iterator[RowsView]:
    """All of them, but for those that are written to: a copy would not do there."""
    for module, call in program.calls():
        func = call.func
        if not isinstance(func, ast.Attribute) or func.attr != "view" or call.keywords:
            continue
        if [module.segment(a).replace(" ", "") for a in call.args] != ["-1"]:
            continue
        rows = func.value
        if not (isinstance(rows, ast.Subscript) and isinstance(rows.slice, ast.Slice) and rows.slice.lower is None):
            continue
        parent = module.parents.get(call)
        if isinstance(parent, ast.Attribute) and parent.attr.endswith("_"):
            continue
        total = _total(module, call)
        indexed = module.span(total) if total is not None and _is_indexed(program, module, call) else None
        yield RowsView(module.span(call), module.span(func), module.span(rows), indexed)


def _total(module: Module, call: ast.Call) -> ast.Call | None:
    """The `.sum(0)` behind the view, `.float()` apart."""
    current: ast.AST = call
    while True:
        attribute = module.parents.get(current)
        outer = module.parents.get(attribute) if attribute is not None else None
        if not isinstance(attribute, ast.Attribute) or not isinstance(outer, ast.Call) or outer.func is not attribute:
            return None
        if attribute.attr == "sum":
            plain = [module.segment(a) for a in outer.args] == ["0"] and not outer.keywords
            return outer if plain else None
        if attribute.attr not in ("float", "double"):
            return None
        current = outer


def _is_indexed(program: Program, module: Module, call: ast.Call) -> bool:
    """True when what the function gives back is taken apart by `[0]` where it was called."""
    function = module.enclosing_function(call)
    resolver = program.resolver
    for owner in program.modules:
        for node in owner.nodes:
            if not (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)):
                continue
            if not (isinstance(node.slice, ast.Constant) and node.slice.value == 0):
                continue
            found = owner.lookup(node.value.id, owner.scope_of.get(node, owner.scope))
            for binding in found[1] if found else []:
                if binding.kind == "assign" and binding.path and isinstance(binding.value, ast.Call):
                    callee = resolver.callee(owner, binding.value)
                    if callee is not None and callee[1] is function:
                        return True
    return False
