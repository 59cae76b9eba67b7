"""Names that are found by looking at what is already there: the next free number of a run, the latest folder.

In: a `Program`.  Out: the listings and tests that lead to the name of a folder that is then made.  A process that comes second sees
what the first has made and goes on to the next number.
"""

from __future__ import annotations

import ast

from migrator.facts.model import Place
from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted
from migrator.facts.python.scopes import Scope
from migrator.facts.python.syntax import Module, Span

_LISTINGS = frozenset(["glob.glob", "os.listdir"])
_TESTS = frozenset(["os.path.exists", "os.path.isdir", "os.path.isfile", "os.path.lexists"])


def numbered_names(program: Program) -> list[Place]:
    """Expressions whose value all processes must share, with the statement that they stand in."""
    folders: dict[Scope, list[tuple[Module, Span]]] = {}
    for effect in program.effects:
        if effect.kind in ("folder", "path_mkdir"):
            module = program.module_at(effect.at)
            node = next((n for n in module.nodes if isinstance(n, ast.Call) and module.span(n) == effect.at), None)
            if node is not None:
                folders.setdefault(module.scope_of.get(node, module.scope), []).append((module, effect.at))
    found = []
    for module, call in program.calls():
        scope = module.scope_of.get(call, module.scope)
        name = program.external(module, call)
        if name not in _LISTINGS | _TESTS:
            continue
        loop = module.enclosing(call, ast.While)
        counts = name in _TESTS and isinstance(loop, ast.While) and call in set(ast.walk(loop.test))
        if scope not in folders:
            if counts and isinstance(loop, ast.While) and _gives_back(module, scope, _assigned(loop)):
                found.append(Place(module.span(loop.test), module.span(loop), module.segment(loop.test)))
            continue
        if name in _LISTINGS or counts:
            place: ast.AST = loop.test if counts and isinstance(loop, ast.While) else call
            start = _assigned(loop) if counts and loop is not None else _assigned(module.statement(call))
            if start and any(_names(module, span) & _reached(module, scope, start) for _, span in folders[scope]):
                found.append(Place(module.span(place), module.span(module.statement(call)), module.segment(place)))
    return found


def _gives_back(module: Module, scope: Scope, start: set[str]) -> bool:
    """True when a function gives its caller a name that its loop has found: what is counted up to is made there."""
    returned = [n.value for n in module.nodes if isinstance(n, ast.Return) and module.scope_of.get(n) is scope]
    return any(value is not None and _mentioned(value) & _reached(module, scope, start) for value in returned)


def _assigned(statement: ast.AST) -> set[str]:
    """Names and attributes that a statement sets."""
    targets: list[ast.expr] = []
    for node in ast.walk(statement):
        if isinstance(node, ast.Assign):
            targets += node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets.append(node.target)
    return {name for target in targets if (name := dotted(target)) is not None}


def _mentioned(node: ast.AST) -> set[str]:
    return {name for n in ast.walk(node) if isinstance(n, ast.Name | ast.Attribute) and (name := dotted(n)) is not None}


def _reached(module: Module, scope: Scope, start: set[str]) -> set[str]:
    """What is computed, within the function, from the names to begin with."""
    reached, size = set(start), -1
    statements = [n for n in module.nodes if isinstance(n, ast.Assign) and module.scope_of.get(n) is scope]
    while len(reached) != size:
        size = len(reached)
        for statement in statements:
            if _mentioned(statement.value) & reached:
                reached |= _assigned(statement)
    return reached


def _names(module: Module, span: Span) -> set[str]:
    node = next(n for n in module.nodes if isinstance(n, ast.Call) and module.span(n) == span)
    return _mentioned(node)
