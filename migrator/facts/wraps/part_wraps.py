"""Programs that wrap only a part of their model, read as if they wrapped the whole: what DistributedDataParallel needs.

In: a `Program`.  Out: its part wraps, each with what speaks against wrapping the whole model, and the program read anew with the
whole wrapped.  Spans are those of the text as it is, where `model.features = nn.DataParallel(model.features)` stands.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from migrator.facts.accelerate.bare import KeyedCall, keyed_calls
from migrator.facts.model import PartWrap, Wrap
from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module, Span
from migrator.facts.wraps.part_models import PartModel
from migrator.facts.wraps.whole_models import whole_models
from migrator.facts.wraps.wrapper_names import DATA_PARALLEL
from migrator.load.project import Project
from migrator.load.source import parse_tree


def part_wraps(program: Program) -> list[PartWrap]:
    """The wraps of a part of a model, in source order."""
    return [_read(program, wrap) for wrap in program.wraps if wrap.submodule]


def against_whole(program: Program, wrap: Wrap) -> str:
    """What speaks against wrapping the whole model where a part of it is wrapped, with a semicolon; empty where nothing does."""
    key = ("part", wrap.at)
    if key not in program.answers:
        against = _read(program, wrap).against
        program.answers[key] = f"; {against}" if against else ""
    return program.answers[key]


def with_wholes(program: Program, parts: list[PartWrap]) -> Project:
    """The program's project, read as if each of the parts' models were wrapped in its place."""
    modules = dict(program.project.modules)
    for name, module in modules.items():
        places = {_place(_call(module, part.at)) for part in parts if part.at.path == module.path}
        if places:
            tree = parse_tree(module.source)
            for node in ast.walk(tree):
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.expr):
                    _widen(node, places)
            modules[name] = Module(module.source, name, module.is_package, tree)
    entry = next(modules[name] for name, module in program.project.modules.items() if module is program.project.entry)
    return replace(program.project, entry=entry, modules=modules)


def _place(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _widen(statement: ast.Assign, places: set[tuple[int, int]]) -> None:
    """`model.features = nn.DataParallel(model.features)` becomes `model = nn.DataParallel(model)`."""
    call = next(
        (n for n in ast.walk(statement.value) if isinstance(n, ast.Call) and _place(n) in places and _given(n)), None
    )
    target = statement.targets[0]
    if call is None or not isinstance(target, ast.Attribute):
        return
    assert isinstance(target.value, ast.Name | ast.Attribute)
    target.value.ctx = ast.Store()
    statement.targets = [target.value]
    given = _given(call)
    call.args = [a.value if a is given and isinstance(a, ast.Attribute) else a for a in call.args]
    for keyword in call.keywords:
        if keyword.value is given and isinstance(keyword.value, ast.Attribute):
            keyword.value = keyword.value.value


def _given(call: ast.Call) -> ast.Attribute | None:
    """The attribute that a call wraps."""
    named = next((k.value for k in call.keywords if k.arg == "module"), None)
    given = named or (call.args[0] if call.args else None)
    return given if isinstance(given, ast.Attribute) else None


def _call(module: Module, at: Span) -> ast.Call:
    return next(n for n in module.nodes if isinstance(n, ast.Call) and module.span(n) == at)


# ---------------------------------------------------------------- one part
def _read(program: Program, wrap: Wrap) -> PartWrap:
    module = program.module_at(wrap.at)
    call = _call(module, wrap.at)
    statement, given = module.statement(call), _given(call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else statement
    whole = dotted(given.value) if given is not None else None
    if given is None or whole is None or module.segment(target) != module.segment(given) or given.attr == "module":
        return PartWrap(wrap.at, wrap.statement, wrap.statement, "", "", "it does not take the part's own place")
    model = PartModel(program, module, statement, given)
    against = model.against or _several(program, wrap, whole) or _saved(program)
    row = PartWrap(wrap.at, wrap.statement, module.span(target), whole, given.attr, against, model.draws)
    merged = None if against else _merged(module, statement, whole)
    return replace(row, instead=merged[0], orelse=merged[1]) if merged is not None else row


def _several(program: Program, wrap: Wrap, whole: str) -> str:
    """Two parts of one model that are both wrapped, and not in two branches."""
    module = program.module_at(wrap.at)
    own = module.statement(_call(module, wrap.at))
    for other in program.wraps:
        if other.at == wrap.at or other.at.path != wrap.at.path or not other.inner_text.startswith(f"{whole}."):
            continue
        if other.scope == wrap.scope and not _apart(module, own, module.statement(_call(module, other.at))):
            return f"another part of it is wrapped too: {other.at.path}:{other.at.line}"
    return ""


def _apart(module: Module, one: ast.stmt, other: ast.stmt) -> bool:
    """True for statements in two branches of one `if`."""
    for ancestor in module.ancestors(one):
        if isinstance(ancestor, ast.If) and other in set(ast.walk(ancestor)):
            sides = [any(s in set(ast.walk(t)) for t in ancestor.body) for s in (one, other)]
            return sides[0] != sides[1]
    return False


def _saved(program: Program) -> str:
    saved = next(whole_models(program), None)
    return f"a model is saved as a whole object: {saved.at.path}:{saved.at.line}" if saved is not None else ""


# ---------------------------------------------------------------- branches that become alike
def _merged(module: Module, statement: ast.stmt, whole: str) -> tuple[Span, bool] | None:
    """The `if` that only chooses between the part and the whole, and whether the whole is in its else branch."""
    guard = module.parents.get(statement)
    if not isinstance(guard, ast.If) or _is_elif(module, guard) or not _only_reads(guard.test):
        return None
    in_body = statement in guard.body
    branch, other = (guard.body, guard.orelse) if in_body else (guard.orelse, guard.body)
    wrapped = [_wrapped_part(module, s) for s in branch]
    wholes = [name for name in wrapped if name is not None]
    alike = sorted(wholes) == sorted(_wrapped_whole(module, s) or "" for s in other)
    rest = [s for s, name in zip(branch, wrapped, strict=True) if name is None]
    placed = all(any(_places(module, s, name) for name in wholes) for s in rest)
    return (module.span(guard), in_body) if whole in wholes and alike and placed else None


def _is_elif(module: Module, node: ast.If) -> bool:
    return module.segment(node).startswith("elif")


def _only_reads(test: ast.expr) -> bool:
    calls = [n for n in ast.walk(test) if isinstance(n, ast.Call)]
    return not any(isinstance(n, ast.NamedExpr | ast.Await) for n in ast.walk(test)) and all(
        isinstance(c.func, ast.Attribute) and c.func.attr in ("startswith", "endswith", "lower") for c in calls
    )


def _unmoved(node: ast.expr) -> ast.expr:
    """The object of `.cuda()` and `.to(…)`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("cuda", "to"):
        node = node.func.value
    return node


def _wrapped_part(module: Module, statement: ast.stmt) -> str | None:
    """`model` in `model.features = nn.DataParallel(model.features)`."""
    call = _unmoved(statement.value) if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if not isinstance(call, ast.Call) or module.qualified(call.func) not in DATA_PARALLEL:
        return None
    given = _given(call)
    same = given is not None and module.segment(given) == module.segment(statement.targets[0])  # type: ignore[attr-defined]
    return dotted(given.value) if given is not None and same else None


def _wrapped_whole(module: Module, statement: ast.stmt) -> str | None:
    """`model` in `model = nn.DataParallel(model).cuda()`."""
    call = _unmoved(statement.value) if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if not isinstance(call, ast.Call) or module.qualified(call.func) not in DATA_PARALLEL or not call.args:
        return None
    name = dotted(call.args[0])
    return name if name == dotted(statement.targets[0]) else None  # type: ignore[attr-defined]


def _places(module: Module, statement: ast.stmt, whole: str) -> bool:
    """`model.cuda()` and `model = model.cuda()`."""
    value = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
    names = [dotted(t) for t in statement.targets] if isinstance(statement, ast.Assign) else [whole]
    return value is not None and names == [whole] and value is not _unmoved(value) and dotted(_unmoved(value)) == whole


def placed_after(program: Program, part: PartWrap) -> Iterator[Span]:
    """Statements right behind the wrap that only put the model on the device, where the new wrapper has put it."""
    module = program.module_at(part.statement)
    statement = module.statement_at(part.statement)
    assert statement is not None
    block = module.block(statement)
    for after in block[block.index(statement) + 1 :]:
        if not _places(module, after, part.whole):
            return
        yield module.span(after)


def part_loads(program: Program) -> list[tuple[KeyedCall, PartWrap]]:
    """Calls that load weights into a model of which a part is wrapped, from the wrap on."""
    parts = [part for part in part_wraps(program) if part.whole]
    calls = keyed_calls(Program(with_wholes(program, parts))) if parts else ()
    return [(call, parts[0]) for call in calls if call.kind == "load_state_dict" and call.argument is not None]
