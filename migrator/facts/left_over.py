"""What a loop over batches leaves behind that only holds for this process's share.

In: the loop, and what flows through it.  Out: reads of such values outside the loop: the loss of the last batch, lists of losses,
running values, objects that were told of them.  What is put together over the processes is left out; so is what is only shown.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from migrator.facts.flow import Flow
from migrator.facts.syntax import Module, Scope, dotted, names_in

_COLLECTS = frozenset(["append", "extend", "add", "push", "insert", "put", "accumulate", "record", "add_batch"])


def left_over(module: Module, loop: ast.For, flow: Flow, shown: Callable[[Module, ast.AST], bool]) -> Iterator[ast.AST]:
    """The first read of each such value, outside of messages."""
    for name in _values(loop, flow):
        reads = _elsewhere(module, loop, name) if "." in name else _behind(module, loop, name)
        for node in reads:
            if not shown(module, node):
                yield node
                break


def read_behind(module: Module, loop: ast.For, name: str) -> bool:
    """True when a name, or an attribute, is read behind the loop, or anywhere else if others can see it."""
    if "." in name:
        return any(True for _ in _elsewhere(module, loop, name))
    scope = module.scope_of.get(loop, module.scope)
    is_seen = scope is module.scope or name in scope.globals
    return any(True for _ in _behind(module, loop, name)) or (is_seen and _is_read_elsewhere(module, scope, name))


def _is_read_elsewhere(module: Module, scope: Scope, name: str) -> bool:
    return any(
        isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) and module.scope_of.get(n) is not scope
        for n in module.nodes
    )


def _values(loop: ast.For, flow: Flow) -> list[str]:
    known = {name for name, kind in flow.figures.items() if kind != "other"}
    found = dict.fromkeys(name for name, kind in flow.figures.items() if kind == "other")
    found |= dict.fromkeys(name for name, kind in flow.kinds.items() if kind)
    ours = set(flow.kinds)
    for node in ast.walk(loop):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _COLLECTS:
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            holder: ast.AST = node.func.value
            while isinstance(holder, ast.Subscript):
                holder = holder.value
            name = dotted(holder)
            if name is not None and any(names_in(part) & ours for part in given):
                found[name] = None
    return [name for name in found if name not in known and name != "self"]


def _behind(module: Module, loop: ast.For, name: str) -> Iterator[ast.AST]:
    """Reads of a name behind the loop, or before it in the next epoch, until the name gets another value."""
    scope, end = module.scope_of.get(loop), module.span(loop).end
    nodes = [n for n in module.nodes if isinstance(n, ast.Name) and n.id == name and module.scope_of.get(n) is scope]
    nodes.sort(key=lambda n: module.span(n).start)
    epochs = module.enclosing(loop, ast.For, ast.While)
    again = module.span(epochs).start if epochs is not None else end
    start = module.span(loop).start
    yield from _until_bound(module, [n for n in nodes if module.span(n).start >= end])
    yield from _until_bound(module, [n for n in nodes if again <= module.span(n).start < start])


def _until_bound(module: Module, nodes: list[ast.Name]) -> Iterator[ast.AST]:
    for node in nodes:
        if isinstance(node.ctx, ast.Load):
            yield node
            continue
        statement = module.statement(node)
        value = getattr(statement, "value", None)
        if isinstance(statement, ast.AugAssign):
            continue
        if isinstance(value, ast.AST) and node.id in names_in(value):
            yield node
        return


def _elsewhere(module: Module, loop: ast.For, name: str) -> Iterator[ast.AST]:
    """Reads of an attribute anywhere in the file but in the loop."""
    place = module.span(loop)
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and dotted(node) == name:
            if not place.contains(module.span(node)):
                yield node
