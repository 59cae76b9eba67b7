"""What imported modules do while they are imported, and which import of the entry lets them do it.

In: the `Code` of a code.  Out: calls that need the processes to have met (they write, ask, draw, read the clock for a name), themselves or in
the functions that they run; and the entry's first import that leads to one of them: the processes must have met above it.
"""

from __future__ import annotations

import ast

from migrator.facts.code import Code
from migrator.facts.effects.effects import classify
from migrator.facts.python.nodes import FunctionNode
from migrator.facts.python.reach import is_main_guard
from migrator.facts.python.syntax import Module
from migrator.facts.randomness.clock_values import clock_of
from migrator.facts.randomness.drawing_calls import draws_or_moves

_KINDS = ("write", "remove", "open", "download", "sink", "prompt")
_DEPTH = 4


def acting_calls(code: Code) -> list[tuple[Module, ast.Call]]:
    """Calls at the top level of imported modules that act, in the order of the modules."""
    found = []
    for module in code.modules:
        if module is code.entry_module:
            continue
        for statement in module.tree.body:
            if not is_main_guard(statement):
                found += [(module, call) for call in _top_calls(statement) if _acts(code, module, call, 0)]
    return found


def _top_calls(node: ast.AST) -> list[ast.Call]:
    """Calls that are made where the statement is run, and not in what it defines."""
    if isinstance(node, FunctionNode):
        return []
    own = [node] if isinstance(node, ast.Call) else []
    return own + [call for child in ast.iter_child_nodes(node) for call in _top_calls(child)]


def _acts(code: Code, module: Module, call: ast.Call, depth: int) -> bool:
    name = code.external(module, call)
    effect = classify(module, call, name)
    clock = clock_of(module, call, name)
    if (effect is not None and effect.kind in _KINDS) or (clock is not None and clock.into != "log"):
        return True
    if draws_or_moves(call, name):
        return True
    callee = code.resolver.callee(module, call) if depth < _DEPTH and not name else None
    if callee is not None and isinstance(callee[1], ast.ClassDef):
        callee = code.resolver.method(callee[0], callee[1], "__init__")
    owner, function = callee or (module, None)
    if not isinstance(function, ast.FunctionDef):
        return False
    inner = [c for statement in function.body for c in _top_calls(statement)]
    return any(_acts(code, owner, c, depth + 1) for c in inner)


def acting_import(code: Code) -> ast.stmt | None:
    """The first import at the top of the entry that runs one of the acting calls; None where there is none in sight."""
    acting = {module for module, _ in acting_calls(code)}
    if acting:
        for statement in code.entry_module.tree.body:
            if isinstance(statement, ast.Import | ast.ImportFrom) and acting & _loaded(code, statement):
                return statement
    return None


def _loaded(code: Code, statement: ast.Import | ast.ImportFrom) -> set[Module]:
    """The project's modules that an import of the entry loads, with all that they import."""
    entry = code.entry_module
    names = [alias.name for alias in statement.names]
    if isinstance(statement, ast.ImportFrom):
        base = statement.module or ""
        names = [base, *(f"{base}.{name}".strip(".") for name in names)]
    queue = [found for name in names for found in [code.resolver.find_module(name, entry)] if found]
    seen: set[Module] = set()
    while queue:
        module = queue.pop()
        if module not in seen and module is not entry:
            seen.add(module)
            parts = [part for name in module.imported_modules for part in (name, name.rpartition(".")[0])]
            queue += [found for part in parts for found in [code.resolver.find_module(part, module)] if found]
    return seen
