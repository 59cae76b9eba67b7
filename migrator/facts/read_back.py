"""Where the program reads a file that it wrote itself, which one process alone writes now.

In: a `Program`.  Out: for every such file the first place behind the writing that reads it; it is known by its path, which must be
spelled alike.  Tests for the file, path arithmetic and further writing are no reading.  A checkpoint is also found by its place:
what `torch.load` reads after a training that saves is what the training has saved, however its path is spelled.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from migrator.facts.downloads import fetching_groups
from migrator.facts.model import Place
from migrator.facts.nodes import FunctionNode, argument, dotted
from migrator.facts.program import Program
from migrator.facts.scopes import Scope
from migrator.facts.syntax import Module, Span
from migrator.facts.uniform import waits_for_all

_WRITES = ("write", "open", "download")
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
        if readers:
            reader = min(readers, key=lambda node: module.span(node).start)
            folder = module.segment(reader.args[0]) if isinstance(reader, ast.Call) and reader.args else ""
            statement = module.span(_above_try(module, module.statement(reader), module.span(call).end))
            place = Place(module.span(reader), statement, module.segment(path), folder)
            found.setdefault((place.statement.path, place.statement.start), place)
    for place in _loads_after_saving(program):
        found.setdefault((place.statement.path, place.statement.start), place)
    # `with open(path) as file: torch.load(file)`: all have waited for the file that is opened
    return [
        p for p in found.values() if not any(o is not p and o.statement.contains(p.statement) for o in found.values())
    ]


def _above_try(module: Module, statement: ast.stmt, written: int) -> ast.stmt:
    """The statement, or the `try` around it that begins behind the writing: where all come, though one may catch an error."""
    parent = module.parents.get(statement)
    if isinstance(parent, ast.Try) and statement in parent.body and module.span(parent).start > written:
        return _above_try(module, parent, written)
    return statement


def removals_after(program: Program, read: Place) -> list[Span]:
    """Statements behind the reading, in the same function, that remove the file or the folder that was listed."""
    module = program.module_at(read.at)
    scope = module.scope_of.get(_node_at(module, read.at), module.scope)
    removed = [e for e in program.effects if e.kind == "remove" and e.at.path == module.path and e.path is not None]
    return [
        e.statement
        for e in removed
        if e.scope == scope.name and e.at.start > read.at.end and e.path_text in (read.text, read.note)
    ]


def _node_at(module: Module, at: Span) -> ast.AST:
    return next(n for n in module.nodes if isinstance(n, ast.expr) and module.span(n) == at)


def _loads_after_saving(program: Program) -> Iterator[Place]:
    """Loads that come behind statements which train and save checkpoints; of loads in one block the first."""
    blocks: list[list[ast.stmt]] = []
    for module, call in program.calls():
        if program.external(module, call) != "torch.load" or not call.args:
            continue
        statement = module.statement(call)
        block = module.block(statement)
        if any(block is one for one in blocks) or not _comes_after_saving(program, module, statement, 0):
            continue
        blocks.append(block)
        yield Place(module.span(call), module.span(statement), module.segment(call.args[0]))


def _comes_after_saving(program: Program, module: Module, statement: ast.stmt, depth: int) -> bool:
    child: ast.AST = statement
    for ancestor in module.ancestors(statement):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(ancestor, name, None)
            if isinstance(block, list) and child in block:
                earlier = block[: block.index(child)]
                calls = [node for one in earlier for node in _calls_in(one)]
                if any(_saves(program, module, c) for c in calls) and any(_trains(program, module, c) for c in calls):
                    return True
        if isinstance(ancestor, FunctionNode):
            sites = program.resolver.call_sites(ancestor) if depth < _DEPTH else []
            return any(_comes_after_saving(program, m, m.statement(c), depth + 1) for m, c in sites)
        child = ancestor
    return False


def _saves(program: Program, module: Module, call: ast.Call, depth: int = 0) -> bool:
    if program.external(module, call) == "torch.save":
        return True
    return any(_saves(program, home, inner, depth + 1) for home, inner in _within(program, module, call, depth))


def _trains(program: Program, module: Module, call: ast.Call, depth: int = 0) -> bool:
    if isinstance(call.func, ast.Attribute) and call.func.attr == "backward":
        return True
    return any(_trains(program, home, inner, depth + 1) for home, inner in _within(program, module, call, depth))


def _within(program: Program, module: Module, call: ast.Call, depth: int) -> Iterator[tuple[Module, ast.Call]]:
    """The calls of a project's function that is called."""
    found = program.resolver.callee(module, call) if depth < _DEPTH else None
    if found is not None and isinstance(found[1], ast.FunctionDef):
        yield from ((found[0], inner) for statement in found[1].body for inner in _calls_in(statement))


def _calls_in(node: ast.AST) -> Iterator[ast.Call]:
    """Calls that are made where the node is run: not those in the functions and classes that it defines."""
    if isinstance(node, FunctionNode | ast.ClassDef):
        return
    if isinstance(node, ast.Call):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _calls_in(child)


def _written(program: Program) -> Iterator[tuple[Module, ast.Call, ast.expr]]:
    fetched = [m.span(s) for m, group in fetching_groups(program) for s in group]  # in turn: see MG510
    effects = {
        (e.at.path, e.at.start, e.at.end): e
        for e in program.effects
        if e.kind in _WRITES and not any(place.contains(e.at) for place in fetched)
    }
    for module, call in program.calls():
        span = module.span(call)
        effect = effects.get((span.path, span.start, span.end))
        if effect is not None and effect.path is not None:
            if effect.kind == "download" and waits_for_all(program, effect.statement):
                continue  # MG501 waits behind it
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
    for inner in (c for statement in function.body for c in _calls_in(statement)):
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
