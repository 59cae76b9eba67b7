"""Where the program reads a file that it wrote itself, which one process alone writes now.

In: a `Program`.  Out: for every such file the first place behind the writing that reads it; it is known by its path, which must be
spelled alike.  Tests for the file, path arithmetic and further writing are no reading.  A checkpoint is also found by its place:
what `torch.load` reads after a training that saves is what the training has saved, however its path is spelled.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from migrator.facts.effects.effects import FILES_OF_MANY
from migrator.facts.effects.loads_after_saving import calls_in, loads_after_saving
from migrator.facts.effects.once import once_groups
from migrator.facts.loaders.downloads import fetching_groups
from migrator.facts.model import Place
from migrator.facts.processes.alone import prepared_first
from migrator.facts.processes.uniform import waits_for_all
from migrator.facts.program import Program
from migrator.facts.python.nodes import FunctionNode, argument, dotted
from migrator.facts.python.scopes import Scope
from migrator.facts.python.syntax import Module, Span

_WRITES = ("write", "open", "download")
_PREPARING = frozenset({"write", "remove", "shell", "open", "download"})
NO_READING = re.compile(
    r"^(os\.(path\.|makedirs|mkdir|listdir|access|stat)|str$|repr$|len$|print$|pathlib\.)|(^|\.)(format|info|debug|warning|warn|error|log|write"
    r"|print_log|append|add|exists|is_file|is_dir|mkdir|join|Path|set_description|set_postfix)$"
)
_LISTS = frozenset({"os.listdir", "os.scandir", "os.walk", "glob.glob", "glob.iglob"})
_DEPTH = 4
_READERS = re.compile(r"(^|\.)(load|open|read_\w+|imread|loadtxt|genfromtxt|loadmat|parse|load_model|from_pretrained)$")


def read_backs(program: Program) -> list[Place]:
    """Statements that read what the program has just written; the text is the path's, the note that of a folder that is listed."""
    found: dict[tuple[str, int], Place] = {}
    for module, call, path in _written(program):
        readers = [*_readers(program, module, call, path), *_commands(program, module, call, path)]
        for reader in _first(module, readers):
            folder = module.segment(reader.args[0]) if isinstance(reader, ast.Call) and reader.args else ""
            statement = module.span(_above_try(module, module.statement(reader), module.span(call).end))
            place = Place(module.span(reader), statement, module.segment(path), folder)
            found.setdefault((place.statement.path, place.statement.start), place)
    for place in loads_after_saving(program):
        found.setdefault((place.statement.path, place.statement.start), place)
    # `with open(path) as file: torch.load(file)`: all have waited for the file that is opened
    return [
        p for p in found.values() if not any(o is not p and o.statement.contains(p.statement) for o in found.values())
    ]


def _first(module: Module, readers: list[ast.expr]) -> list[ast.expr]:
    """The reading that comes first, and those in the other branch of an `if` around it."""
    readers = sorted(readers, key=lambda node: module.span(node).start)
    first = [*readers[:1]]
    for reader in readers[1:]:
        statement = module.statement(reader)
        if all(_are_exclusive(module, module.statement(one), statement) for one in first):
            first.append(reader)
    return first


def _are_exclusive(module: Module, one: ast.stmt, other: ast.stmt) -> bool:
    """True for statements of which an `if` or `else` runs one."""
    above = {one, *module.ancestors(one)}
    child: ast.AST = other
    for ancestor in module.ancestors(other):
        if isinstance(ancestor, ast.If) and ancestor in above:
            mine, its = (
                next((name for name in ("body", "orelse") if statement in getattr(ancestor, name)), "")
                for statement in (child, next((s for s in (*ancestor.body, *ancestor.orelse) if s in above), child))
            )
            return mine != its
        child = ancestor
    return False


def _above_try(module: Module, statement: ast.stmt, written: int) -> ast.stmt:
    """The statement, or the `try` around it that begins behind the writing: where all come, though one may catch an error."""
    parent = module.parents.get(statement)
    if isinstance(parent, ast.Try) and statement in parent.body and module.span(parent).start > written:
        return _above_try(module, parent, written)
    return statement


def removals_after(program: Program, read: Place) -> list[Span]:
    """Statements behind the reading, in the same function, that remove the file or the folder that was listed."""
    module = program.module_at(read.at)
    around = _function(module, _node_at(module, read.at))
    removed = [e for e in program.effects if e.kind == "remove" and e.at.path == module.path and e.path is not None]
    return [
        e.statement
        for e in removed
        if e.at.start > read.at.end
        and e.path_text in (read.text, read.note)
        and _function(module, _node_at(module, e.at)) is around
    ]


def _function(module: Module, node: ast.AST) -> ast.AST | None:
    """The function around a node; a comprehension is run where it stands."""
    return next(
        (a for a in module.ancestors(node) if isinstance(a, FunctionNode) and not isinstance(a, ast.Lambda)), None
    )


def _node_at(module: Module, at: Span) -> ast.AST:
    return module.expression_at(at)


def _written(program: Program) -> Iterator[tuple[Module, ast.Call, ast.expr]]:
    fetched = [m.span(s) for m, group in fetching_groups(program) for s in group]  # in turn: see MG510
    fetched += [p for g in once_groups(program, _PREPARING)[0] if (p := prepared_first(program, g)) is not None]
    effects = {
        (e.at.path, e.at.start, e.at.end): e
        for e in program.effects
        if e.kind in _WRITES and not any(place.contains(e.at) for place in fetched)
    }
    for module, call in program.calls():
        span = module.span(call)
        effect = effects.get((span.path, span.start, span.end))
        if effect is not None and effect.path is not None:
            many = effect.name in FILES_OF_MANY and isinstance(module.parents.get(call), ast.withitem)
            if (many or effect.kind == "download") and waits_for_all(program, effect.statement):
                continue  # MG503 and MG501 wait behind it
            values = (*call.args, *(keyword.value for keyword in call.keywords))
            path = next((v for v in values if module.span(v) == effect.path), None)
            if path is not None:
                yield module, call, path
                yield from _handed_down(program, module, path)


def _handed_down(
    program: Program, module: Module, path: ast.expr, depth: int = 0
) -> Iterator[tuple[Module, ast.Call, ast.expr]]:
    """Calls of the function that writes, for a path that they give it: behind them the file is there."""
    found = module.lookup(path.id, module.scope_of.get(path, module.scope)) if isinstance(path, ast.Name) else None
    if found is None or depth == _DEPTH or not all(binding.kind == "param" for binding in found[1]):
        return
    bound = found[0].parent is not None and found[0].parent.is_class
    for caller, site in program.resolver.call_sites(found[0].node):
        for binding in found[1]:
            position = binding.path[0] - (1 if bound else 0) if binding.path else None
            given = argument(site, binding.target, position)
            if given is not None:
                yield caller, site, given
                yield from _handed_down(program, caller, given, depth + 1)


def _readers(program: Program, module: Module, call: ast.Call, path: ast.expr) -> Iterator[ast.expr]:
    key, scope, start = ast.dump(path), module.scope_of.get(call, module.scope), module.span(call).end
    # The path of a copy may be that of a folder; a function of the program may be given one to write to again.
    copied = program.external(module, call).startswith(("shutil.", "os.")) or program.resolver.callee(module, call)
    writing = {(e.at.path, e.at.start, e.at.end) for e in program.effects}
    for node in module.nodes:
        if not isinstance(node, type(path)) or (isinstance(node, ast.Name) and node.id != getattr(path, "id", "")):
            continue
        if module.span(node).start < start or ast.dump(node) != key:
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
        if (span.path, span.start, span.end) in writing or NO_READING.search(name):
            continue
        reads = _READERS.search(name) is not None or _reads_given(program, module, parent, node)
        if (there is scope and (reads or not copied)) or (_is_the_same_elsewhere(path) and reads):
            yield node


def _reads_given(program: Program, module: Module, call: ast.Call, path: ast.AST, depth: int = 0) -> bool:
    """True when a function of the project, or a class's `__init__`, reads the file that the call gives it."""
    callee = program.resolver.callee(module, call) if depth < _DEPTH else None
    bound = callee is not None and isinstance(callee[1], ast.ClassDef)
    if callee is not None and isinstance(callee[1], ast.ClassDef):
        callee = program.resolver.method(callee[0], callee[1], "__init__")
    owner, function = callee or (module, None)
    if not isinstance(function, ast.FunctionDef):
        return False
    arguments = [*function.args.posonlyargs, *function.args.args][1 if bound or _is_method(call, function) else 0 :]
    keyword = next((k.arg for k in call.keywords if k.value is path), None)
    position = call.args.index(path) if path in call.args else None
    name = keyword or (arguments[position].arg if position is not None and position < len(arguments) else None)
    for inner in (c for statement in function.body for c in calls_in(statement)):
        given = next((a for a in (*inner.args, *(k.value for k in inner.keywords)) if _is_name(a, name)), None)
        spelled = program.external(owner, inner) or dotted(inner.func) or ""
        if given is not None and (_opens(inner, spelled) or _reads_given(program, owner, inner, given, depth + 1)):
            return True
    return False


def _is_method(call: ast.Call, function: ast.FunctionDef) -> bool:
    names = [a.arg for a in function.args.args[:1]]
    return isinstance(call.func, ast.Attribute) and names in (["self"], ["cls"])


def _is_name(node: ast.AST, name: str | None) -> bool:
    return name is not None and isinstance(node, ast.Name) and node.id == name


def _opens(call: ast.Call, name: str) -> bool:
    if name in ("open", "io.open"):
        mode = argument(call, "mode", 1)
        return mode is None or (isinstance(mode, ast.Constant) and not set(str(mode.value)) & set("wax"))
    return _READERS.search(name) is not None


def _commands(program: Program, module: Module, call: ast.Call, path: ast.expr) -> Iterator[ast.expr]:
    """Commands of the shell that are given the file, and lists of the folder in which it is, further down in the function."""
    scope, start = module.scope_of.get(call, module.scope), module.span(call).end
    shell = {(e.at.path, e.at.start) for e in program.effects if e.kind == "shell"}
    for other in module.nodes:
        if not isinstance(other, ast.Call) or module.scope_of.get(other, module.scope) is not scope:
            continue
        span = module.span(other)
        if span.start < start:
            continue
        if (span.path, span.start) in shell and _mentions(other, path):
            yield other
        elif program.external(module, other) in _LISTS and other.args and not isinstance(path, ast.Name):
            if _mentions(path, other.args[0]):
                yield other


def _mentions(node: ast.AST, path: ast.expr) -> bool:
    """True when a path, or a text that begins with it, stands in the expression."""
    if isinstance(path, ast.Constant) and isinstance(path.value, str):
        texts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        return any(path.value in text for text in texts)
    key = ast.dump(path)
    return any(isinstance(n, type(path)) and ast.dump(n) == key for n in ast.walk(node))


def _is_the_same_elsewhere(path: ast.expr) -> bool:
    """A spelling that says enough to mean the same file in another function."""
    return isinstance(path, ast.Call | ast.JoinedStr | ast.BinOp | ast.Constant)


def _is_used(program: Program, scope: Scope) -> bool:
    """True when a caller does something with what the function gives back."""
    sites = program.resolver.call_sites(scope.node)
    return any(not isinstance(caller.parents.get(site), ast.Expr) for caller, site in sites)
