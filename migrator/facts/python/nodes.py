"""Nodes of a tree by themselves: walking them, dotted names, and the arguments of calls.

Nothing here knows of a module, and nothing mutates a tree.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {}
_NO_CHILDREN = frozenset(["ctx", "op", "ops", "id", "attr", "name", "arg", "kind", "module", "level", "asname"])


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all below it, level by level, as `ast.walk` but without contexts and operators, in a third of the time."""
    found = [node]
    for current in found:
        yield current
        found += children(current)


def children(node: ast.AST) -> list[ast.AST]:
    """The child nodes in source order, without contexts and operators (which all trees share, and which have no place)."""
    found: list[ast.AST] = []
    for name in _fields_of(type(node)):
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            found.append(value)
        elif isinstance(value, list):
            found += [one for one in value if isinstance(one, ast.AST)]
    return found


def _fields_of(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a kind of node that can hold child nodes; those left out hold what all trees share, or plain values."""
    known = _FIELDS.get(kind)
    if known is None:
        known = _FIELDS[kind] = tuple(name for name in kind._fields if name not in _NO_CHILDREN)
    return known


def names_in(node: ast.AST) -> set[str]:
    """Plain names that an expression or statement mentions."""
    return {n.id for n in walk(node) if isinstance(n, ast.Name)}


def dotted(node: ast.AST) -> str | None:
    """`a.b.c` as text, or None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else None
    return None


def called_name(call: ast.Call) -> str:
    """The last name of what is called: `DataParallel` for `nn.DataParallel(net)`; empty where that has no name."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else dotted(call.func) or ""


def argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """The value of a call's argument, given by keyword or by position; None when it is absent or hidden in a `*`."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if position is not None and position < len(call.args):
        values = call.args[: position + 1]
        if not any(isinstance(value, ast.Starred) for value in values):
            return values[-1]
    return None


def has_unpacking(call: ast.Call) -> bool:
    """True when arguments arrive through `*args` or `**kwargs`."""
    return any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)
