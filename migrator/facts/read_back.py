"""Where the program reads a file that it wrote itself, which one process alone writes now.

In: a `Program`.  Out: for every such file the first place behind the writing that reads it; it is known by its path, which must be
spelled alike.  Tests for the file, path arithmetic and further writing are no reading.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from migrator.facts.model import Place
from migrator.facts.program import Program
from migrator.facts.syntax import Module, Scope

_WRITES = ("write", "open", "download")
_NO_READING = re.compile(
    r"^(os\.(path\.|makedirs|mkdir|listdir|access|stat)|str$|repr$|len$|print$|pathlib\.)|(^|\.)(format|info|debug|warning|warn|error|log|write"
    r"|print_log|append|add|exists|is_file|is_dir|mkdir|join|Path|set_description|set_postfix)$"
)
_READERS = re.compile(r"(^|\.)(load|open|read_\w+|imread|loadtxt|genfromtxt|loadmat|parse|load_model|from_pretrained)$")


def read_backs(program: Program) -> list[Place]:
    """Statements that read what the program has just written; the note is the path's text."""
    found: dict[tuple[str, int], Place] = {}
    for module, call, path in _written(program):
        for reader in _readers(program, module, call, path):
            place = Place(module.span(reader), module.span(module.statement(reader)), module.segment(path))
            found.setdefault((place.statement.path, place.statement.start), place)
            break
    return list(found.values())


def _written(program: Program) -> Iterator[tuple[Module, ast.Call, ast.expr]]:
    effects = {(e.at.path, e.at.start, e.at.end): e for e in program.effects if e.kind in _WRITES}
    for module, call in program.calls():
        span = module.span(call)
        effect = effects.get((span.path, span.start, span.end))
        if effect is not None and effect.path is not None:
            values = (*call.args, *(keyword.value for keyword in call.keywords))
            path = next((v for v in values if module.span(v) == effect.path), None)
            if path is not None:
                yield module, call, path


def _readers(program: Program, module: Module, call: ast.Call, path: ast.expr) -> Iterator[ast.expr]:
    key, scope, start = ast.dump(path), module.scope_of.get(call, module.scope), module.span(call).end
    copied = program.external(module, call).startswith(("shutil.", "os."))  # the path may be that of a folder
    writing = {(e.at.path, e.at.start, e.at.end) for e in program.effects}
    for node in module.nodes:
        if not isinstance(node, type(path)) or module.span(node).start < start or ast.dump(node) != key:
            continue
        there = module.scope_of.get(node, module.scope)
        parent = module.parents.get(node)
        if isinstance(parent, ast.keyword):
            parent = module.parents.get(parent)
        if isinstance(parent, ast.Return):
            if there is scope and _is_used(program, scope):
                yield node
            continue
        if not isinstance(parent, ast.Call) or parent.func is node:
            continue
        span = module.span(parent)
        name = program.external(module, parent) or getattr(parent.func, "attr", getattr(parent.func, "id", ""))
        if (span.path, span.start, span.end) in writing or _NO_READING.search(name):
            continue
        reads = _READERS.search(name) is not None
        if (there is scope and (reads or not copied)) or (_is_the_same_elsewhere(path) and reads):
            yield node


def _is_the_same_elsewhere(path: ast.expr) -> bool:
    """A spelling that says enough to mean the same file in another function."""
    return isinstance(path, ast.Call | ast.JoinedStr | ast.BinOp | ast.Constant)


def _is_used(program: Program, scope: Scope) -> bool:
    """True when a caller does something with what the function gives back."""
    sites = program.resolver.call_sites(scope.node)
    return any(not isinstance(caller.parents.get(site), ast.Expr) for caller, site in sites)
