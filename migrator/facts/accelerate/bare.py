"""Uses of a prepared model that mean the network inside it, or the keys of its weights.

In: a `Program`.  Out: places with `.module` of the wrapped model, and its `state_dict()` and `load_state_dict()` calls, each with
what happens to the keys.  A prepared model has a wrapper over several processes and none in one: both must work.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module, Span

_PASSING = frozenset(["deepcopy", "copy", "save", "load_state_dict", "OrderedDict", "dict"])


@dataclass(frozen=True, slots=True)
class Unwrapping:
    """`model.module`, or a whole `model.module.f() if … else model.f()`, of which `rest` is `.f()`."""

    at: Span
    model: Span
    rest: str = ""


@dataclass(frozen=True, slots=True)
class KeyedCall:
    """`model.state_dict()` or `model.load_state_dict(state)` of the wrapped model.

    `saved`: the keys are only kept or written, never looked at by the program.
    """

    kind: str
    at: Span
    model: Span
    argument: Span | None
    saved: bool


def unwrappings(program: Program) -> Iterator[Unwrapping]:
    """Places that reach through the wrapper, outermost first."""
    for module in program.modules:
        done: set[ast.AST] = set()
        for node in module.nodes:
            chosen = _chosen(program, module, node) if isinstance(node, ast.IfExp) else None
            if chosen is not None:
                done.update(ast.walk(node))
                rest = module.text[module.span(chosen).end : module.span(node.body).end]  # type: ignore[attr-defined]
                yield Unwrapping(module.span(node), module.span(chosen.value), rest)
            elif isinstance(node, ast.Attribute) and node.attr == "module" and isinstance(node.ctx, ast.Load):
                inner = isinstance(node.value, ast.Attribute) and node.value.attr == "module"
                if node not in done and not inner and program.is_wrapped(module, node.value):
                    yield Unwrapping(module.span(node), module.span(node.value))


def _chosen(program: Program, module: Module, node: ast.IfExp) -> ast.Attribute | None:
    """The `model.module` in `model.module.f() if hasattr(model, "module") else model.f()`."""
    test = node.test
    if not (isinstance(test, ast.Call) and dotted(test.func) in ("hasattr", "isinstance") and test.args):
        return None
    found = next((n for n in ast.walk(node.body) if isinstance(n, ast.Attribute) and n.attr == "module"), None)
    if found is None or dotted(found.value) != dotted(test.args[0]) or not program.is_wrapped(module, found.value):
        return None
    plain = module.segment(node.orelse)
    same = module.segment(node.body).replace(".module", "", 1) == plain and plain.startswith(
        module.segment(found.value)
    )
    return found if same else None


def keyed_calls(program: Program) -> Iterator[KeyedCall]:
    """Calls on the wrapped model, from the wrap on, that give or take keys with its prefix."""
    for module, call in program.calls():
        func = call.func
        if not isinstance(func, ast.Attribute) or func.attr not in ("state_dict", "load_state_dict"):
            continue
        if not program.is_wrapped(module, func.value) or _is_bare(program, module, func.value):
            continue
        if any(isinstance(a, ast.IfExp) and _chosen(program, module, a) for a in module.ancestors(call)):
            continue
        argument = module.span(call.args[0]) if call.args else None
        saved = func.attr == "state_dict" and only_kept(module, call)
        yield KeyedCall(func.attr, module.span(call), module.span(func.value), argument, saved)


def _is_bare(program: Program, module: Module, node: ast.AST) -> bool:
    """True for `model.module`, for a name that stands for it, and for the model before it is wrapped."""
    if isinstance(node, ast.Attribute) and node.attr == "module":
        return True
    name, scope = dotted(node), module.scope_of.get(node, module.scope)
    for wrap in program.wraps:
        if wrap.at.path == module.path and wrap.target == name and wrap.scope == scope.name:
            before = module.span(node).start < wrap.at.start
            if before and module.enclosing(node, ast.For, ast.While) is None:
                return True
    found = module.lookup(node.id, scope) if isinstance(node, ast.Name) else None
    values = [b.value for b in found[1] if b.value is not None] if found else []
    return bool(values) and all(
        isinstance(v, ast.Attribute | ast.IfExp) and ".module" in module.segment(v) for v in values
    )


def only_kept(module: Module, call: ast.Call) -> bool:
    """True when the state goes into a file, a dictionary or a copy, and its keys are not looked at."""
    parent = module.parents.get(call)
    if isinstance(parent, ast.Assign) and parent.value is call and isinstance(parent.targets[0], ast.Name):
        name, function = parent.targets[0].id, module.enclosing_function(parent)
        uses = [n for n in module.nodes if isinstance(n, ast.Name) and n.id == name and n is not parent.targets[0]]
        return all(_passes(module, n) for n in uses if module.enclosing_function(n) is function)
    if isinstance(parent, ast.Attribute | ast.For | ast.comprehension | ast.Compare | ast.Starred):
        return False
    if isinstance(parent, ast.Call):
        return _passes(module, call)
    return not isinstance(parent, ast.Subscript) or parent.slice is call


def _passes(module: Module, node: ast.AST) -> bool:
    parent = module.parents.get(node)
    if isinstance(parent, ast.keyword):
        parent = module.parents.get(parent)
    if isinstance(parent, ast.Call) and node is not parent.func:
        called = module.segment(parent.func)
        return called.rpartition(".")[2] in _PASSING or "save" in called
    return isinstance(parent, ast.Dict | ast.Return | ast.Tuple | ast.List)
