"""Files and folders that the program makes itself, and questions for them.

In: a `Program`.  Out: which path a call asks for, and whether the program is what makes it.  A path is known by its text: a bare
name within its function (or its module, where it is global), an attribute of `self` within its module, another spelling anywhere.
"""

from __future__ import annotations

import ast
from functools import lru_cache

from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module, Span

_ASKS = frozenset(["os.path.exists", "os.path.isdir", "os.path.isfile", "os.path.lexists"])
_METHODS = frozenset(["exists", "is_dir", "is_file"])
_LOOKS = ("os.path.", "os.listdir", "os.scandir", "glob.")
_MAKES = ("folder", "path_mkdir", "write", "open", "download")


def asked_about(program: Program, module: Module, call: ast.Call) -> str | None:
    """The text of the path whose existence the call asks for."""
    name = program.external(module, call) or dotted(call.func) or ""
    if name in _ASKS and call.args:
        return module.segment(call.args[0])
    if isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS and not call.args:
        return module.segment(call.func.value)
    return None


def whole_question(program: Program, module: Module, call: ast.Call, path: str) -> Span:
    """The question with what the same condition asks about the path behind it: `exists(path) and os.listdir(path)`."""
    outer = module.parents[call]
    first: ast.expr = outer if isinstance(outer, ast.UnaryOp) and isinstance(outer.op, ast.Not) else call
    condition = module.parents[first]
    if not isinstance(condition, ast.BoolOp):
        return module.span(call)
    last = first
    for part in condition.values[condition.values.index(first) + 1 :]:
        if not any(_looks(program, module, node, path) for node in ast.walk(part)):
            break
        last = part
    if last is first:
        return module.span(call)
    start, end = module.span(first), module.span(last)
    return Span(start.path, start.start, end.end, start.line)


def _looks(program: Program, module: Module, node: ast.AST, path: str) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = program.external(module, node) or dotted(node.func) or ""
    return name.startswith(_LOOKS) and bool(node.args) and module.segment(node.args[0]) == path


def is_made(program: Program, module: Module, node: ast.AST, path: str) -> bool:
    """True when the program makes the file or folder for which `node` asks."""
    if path.startswith("self."):
        return any(text == path and home == module.path for text, home, _ in _made(program))
    if not path.isidentifier():
        return any(text == path for text, _, _ in _made(program))
    own = module.scope_of.get(node, module.scope).name
    is_global = path in module.scope.bindings
    return any(
        text == path and home == module.path and (is_global or own == scope) for text, home, scope in _made(program)
    )


@lru_cache(maxsize=2)
def _made(program: Program) -> frozenset[tuple[str, str, str]]:
    """Text of the path, and the module and function that make it."""
    made = [e for e in program.effects if e.kind in _MAKES]
    return frozenset((e.path_text or program.text(e.at).partition(".mkdir")[0], e.at.path, e.scope) for e in made)
