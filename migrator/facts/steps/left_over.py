"""What a loop over batches leaves behind that only holds for this process's share.

In: the loop, and what flows through it.  Out: reads of such values outside the loop: the loss of the last batch, lists of losses,
running values, objects that were told of them.  What is put together over the processes is left out; so is what is only shown.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from migrator.facts.loaders.batch_loops import BatchLoop
from migrator.facts.python.nodes import dotted, names_in, walk
from migrator.facts.python.syntax import Module
from migrator.facts.steps.flow import Flow

_COLLECTS = frozenset(["append", "extend", "add", "push", "insert", "put", "accumulate", "record", "add_batch"])


def left_over(
    module: Module, loop: BatchLoop, flow: Flow, shown: Callable[[Module, ast.AST], bool]
) -> Iterator[ast.AST]:
    """The first read of each such value, outside of messages."""
    for name in _values(loop, flow):
        reads = _elsewhere(module, loop, name) if "." in name else _behind(module, loop, name)
        for node in reads:
            if not shown(module, node):
                yield node
                break


def read_behind(module: Module, loop: BatchLoop, name: str) -> bool:
    """True when a name, or an attribute, is read behind the loop, or where else it can be seen: globals, closures."""
    if "." in name:
        return any(True for _ in _elsewhere(module, loop, name))
    return any(True for _ in _behind(module, loop, name)) or _is_read_elsewhere(module, loop, name)


def is_handed_on(module: Module, loop: BatchLoop, name: str) -> bool:
    """True for an object that something outside of the loop is given, and may ask later."""
    scope, place = module.scope_of.get(loop, module.scope), module.span(loop)
    reads = [n for n in module.nodes if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    return any(module.scope_of.get(n) is scope and not place.contains(module.span(n)) for n in reads)


def _is_read_elsewhere(module: Module, loop: BatchLoop, name: str) -> bool:
    """Reads of the same variable in other scopes; comprehensions of the loop itself are not among them."""
    scope, place = module.scope_of.get(loop, module.scope), module.span(loop)
    owner = module.scope if name in scope.globals else scope
    own = module.enclosing_function(loop)
    for node in module.nodes:
        if not isinstance(node, ast.Name) or node.id != name or not isinstance(node.ctx, ast.Load):
            continue
        other = module.scope_of.get(node, module.scope)
        found = module.lookup(name, other) if other is not scope else None
        if found is not None and found[0] is owner:
            if not (place.contains(module.span(node)) and module.enclosing_function(node) is own):
                return True
    return False


def _values(loop: BatchLoop, flow: Flow) -> list[str]:
    known = {name for name, kind in flow.figures.items() if kind != "other"}
    found = dict.fromkeys(name for name, kind in flow.figures.items() if kind == "other")
    found |= dict.fromkeys(name for name, kind in flow.kinds.items() if kind)
    ours = set(flow.kinds)
    for node in walk(loop):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _COLLECTS:
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            holder: ast.AST = node.func.value
            while isinstance(holder, ast.Subscript):
                holder = holder.value
            name = dotted(holder)
            if name is not None and any(names_in(part) & ours for part in given):
                found[name] = None
    return [name for name in found if name not in known and name != "self"]


def _behind(module: Module, loop: BatchLoop, name: str) -> Iterator[ast.AST]:
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


def _elsewhere(module: Module, loop: BatchLoop, name: str) -> Iterator[ast.AST]:
    """Reads of an attribute anywhere in the file but in the loop."""
    place = module.span(loop)
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and dotted(node) == name:
            if not place.contains(module.span(node)):
                yield node
