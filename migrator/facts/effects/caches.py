"""Files that a program makes when they are missing and reads when they are there.

In: a `Program` and an `if` that asks for a file.  Out: whether one of its branches reads the file and the other writes it, itself
or by a function that is given the path.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from migrator.facts.effects.read_back import NO_READING
from migrator.facts.loaders.downloads import fetching_groups
from migrator.facts.model import Effect
from migrator.facts.program import Program
from migrator.facts.python.syntax import Module, Span

_WAITED_FOR = ("remove", "shell", "download")  # see MG501


def is_cache(program: Program, module: Module, node: ast.If, path: str) -> bool:
    """True when one branch reads the file with this text for its path, and the other writes it."""
    span = module.span(node)
    if any(e.kind in _WAITED_FOR and span.contains(e.at) for e in program.effects):
        return False
    if any(span.contains(home.span(one)) for home, group in fetching_groups(program) for one in group):
        return False  # rank 0 goes through it first: see MG510
    branches = (node.body, node.orelse)
    return any(
        _writes(program, module, one, path) and _reads(program, module, other, path)
        for one, other in (branches, branches[::-1])
    )


def _reads(program: Program, module: Module, statements: Iterable[ast.stmt], path: str) -> bool:
    for call in _given(module, statements, path):
        name = program.external(module, call) or getattr(call.func, "attr", getattr(call.func, "id", ""))
        if not NO_READING.search(name) and not _written(program, module.span(call), ""):
            return True
    return False


def _writes(program: Program, module: Module, statements: Iterable[ast.stmt], path: str) -> bool:
    for call in _given(module, statements, path):
        if _written(program, module.span(call), path):
            return True
        callee = program.resolver.callee(module, call)
        if callee is not None and isinstance(callee[1], ast.FunctionDef):
            place = callee[0].span(callee[1])
            if any(_written(program, place, name.arg) for name in callee[1].args.args):
                return True
    return False


def _given(module: Module, statements: Iterable[ast.stmt], path: str) -> Iterator[ast.Call]:
    """Calls that get the path."""
    for node in (n for statement in statements for n in ast.walk(statement)):
        if isinstance(node, ast.Call) and any(module.segment(a) == path for a in node.args):
            yield node


def _written(program: Program, place: Span, path: str) -> list[Effect]:
    """Effects within a place that write to the path (to any, when it is empty)."""
    inside = [e for e in program.effects if e.kind in ("write", "open") and place.contains(e.at)]
    return [e for e in inside if path in ("", e.path_text)]
