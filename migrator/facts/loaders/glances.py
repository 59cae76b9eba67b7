"""Batches that are drawn to be shown and nothing else: what they hold may be a share of what it was.

In: a call that draws a batch outside of the training loop.  Out: True where its names are only given to what prints, logs or plots.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted, names_in
from migrator.facts.python.syntax import Module

_SHOWS = re.compile(
    r"(^|[._])(print|log|logger|logging|writer|plt|ax|axes|vis|viz|wandb|imshow|imsave|save_image)(\.|$)"
)
_RUNS_MODEL = frozenset(["add_graph", "watch"])
_DEPTH = 3


def is_only_looked_at(program: Program, module: Module, draw: ast.AST) -> bool:
    """True for `images, labels = next(iter(loader))` in front of `writer.add_images("some", images)`."""
    statement = module.statement(draw)
    if module.enclosing(draw, ast.For, ast.While) is not None:
        return False  # what is drawn in one turn may be looked at in the next
    return _only_shown(program, module, statement, 0)


def _only_shown(program: Program, module: Module, statement: ast.stmt, depth: int) -> bool:
    if not isinstance(statement, ast.Assign) or depth > _DEPTH:
        return False
    parts = [p for t in statement.targets for p in (t.elts if isinstance(t, ast.Tuple | ast.List) else [t])]
    if not all(isinstance(part, ast.Name) for part in parts):
        return False
    scope = module.scope_of.get(statement, module.scope)
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    return not (names & scope.globals) and all(
        module.scope_of.get(read) is scope and _is_shown(program, module, read, depth)
        for name in names
        for read in _reads(module, statement, name)
    )


def _reads(module: Module, statement: ast.stmt, name: str) -> Iterator[ast.Name]:
    """Reads of the name before it gets another value, and those of other functions that see it."""
    scope, end = module.scope_of.get(statement, module.scope), module.span(statement).end
    same = [n for n in module.nodes if isinstance(n, ast.Name) and n.id == name]
    own = sorted((n for n in same if module.scope_of.get(n) is scope), key=lambda n: module.span(n).start)
    for node in own:
        if module.span(node).start >= end:
            if not isinstance(node.ctx, ast.Load):
                break
            yield node
    for node in same:
        other = module.scope_of.get(node, module.scope)
        found = module.lookup(name, other) if other is not scope and isinstance(node.ctx, ast.Load) else None
        if found is not None and found[0] is scope:
            yield node


def _is_shown(program: Program, module: Module, read: ast.Name, depth: int) -> bool:
    statement = module.statement(read)
    for ancestor in module.ancestors(read):
        if ancestor is statement:
            break
        if isinstance(ancestor, ast.Call) and _SHOWS.search(dotted(ancestor.func) or ""):
            others = [*ancestor.args, *(keyword.value for keyword in ancestor.keywords)]
            runs = (dotted(ancestor.func) or "").rpartition(".")[2] in _RUNS_MODEL
            return isinstance(statement, ast.Expr) and not runs and not any(_calls(other, read.id) for other in others)
    value = getattr(statement, "value", None)
    is_grid = isinstance(value, ast.Call) and program.external(module, value).endswith(".make_grid")
    inner = value.args if isinstance(value, ast.Call) else []
    return (
        is_grid
        and not any(_calls(given, read.id) for given in inner)
        and _only_shown(program, module, statement, depth + 1)
    )


def _calls(node: ast.AST, name: str) -> bool:
    """True where something else than a method of the batch is called: it might be the model."""
    called = [n.func for n in ast.walk(node) if isinstance(n, ast.Call)]
    return not all(isinstance(func, ast.Attribute) and names_in(func) == {name} for func in called)
