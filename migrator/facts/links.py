"""What the training is made of, found over all modules: its models, its optimizers, and the loaders of its loops.

In: a `Program`.  Out: a `Link` for each wrap, stepped optimizer and training loop.  The answer is three-valued: found, several
(a table or a name of a file chooses among known ones), or unresolved, with what was looked for.  Nothing is guessed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from migrator.facts.loaders.loaders import DATA_LOADER
from migrator.facts.model import Wrap
from migrator.facts.program import Program
from migrator.facts.python.nodes import FunctionNode, dotted
from migrator.facts.python.syntax import Module, Span
from migrator.facts.python.values import Value
from migrator.facts.wraps.wrapper_names import DATA_PARALLEL, DISTRIBUTED

_THROUGH = ("enumerate", "tqdm", "iter", "zip", "track", "islice", "progress_bar", "cycle", "prefetcher", "trange")
_COUNTING = ("range", "trange", "xrange")
_DEPTH = 5
Role = Literal["model", "optimizer", "loader"]
State = Literal["found", "several", "unresolved"]


@dataclass(frozen=True, slots=True)
class Link:
    """One role of the training: where it is used, where what fills it is made, and what was looked for in vain."""

    role: Role
    state: State
    at: Span
    text: str
    made: tuple[Span, ...] = ()
    missing: str = ""
    is_read: bool = False  # a loader that a loop reads, and not a backward pass without one


def links(program: Program) -> list[Link]:
    """All links of a program, models first."""
    named = _named(program)
    return [*_models(program), *_optimizers(program, named), *_loaders(program, named)]


def is_called(program: Program, wrap: Wrap) -> bool:
    """True when a call of the wrapped model was found: of itself, its `forward` or another method that gives outputs."""
    at = program.module_at(wrap.at)
    made = next(n for n in at.nodes if isinstance(n, ast.Call) and at.span(n) == wrap.at)
    return any(
        any(value.node is made for value in program.resolver.values(module, func))
        for module, call in program.calls()
        for func in (call.func, call.func.value if isinstance(call.func, ast.Attribute) else call.func)
        if not (func is not call.func and call.func.attr not in ("forward", "module"))  # type: ignore[attr-defined]
    )


def inner_loader(program: Program, link: Link) -> ast.AST:
    """The expression inside `enumerate(...)` and its like that a link to a loader is about."""
    module = program.module_at(link.at)
    node = module.expression_at(link.at)
    return _inner(module, node)


def _link(program: Program, role: Role, module: Module, node: ast.AST, known: list[Value], missing: str) -> Link:
    made = tuple(
        dict.fromkeys(
            v.module.span(v.node)
            for v in known
            if v.module is not None and v.node is not None and hasattr(v.node, "lineno")
        )
    )
    state: State = "unresolved" if not known else "found" if len(made) == 1 else "several"
    return Link(role, state, module.span(node), module.segment(node), made, "" if known else missing)


# -------------------------------------------------------------------- models
def _models(program: Program) -> Iterator[Link]:
    for wrap in program.wraps:
        module = program.module_at(wrap.inner)
        inner = module.expression_at(wrap.inner)
        known = _modules(program, module, inner)
        if not known and isinstance(inner, ast.Attribute):
            known = _modules(program, module, inner.value)  # a part of a model that is in sight
        yield _link(program, "model", module, inner, known, "the call that makes the module")


def _modules(program: Program, module: Module, node: ast.expr) -> list[Value]:
    return [
        value
        for value in program.resolver.values(module, node)
        if _is_made(program, value) and value.name not in DATA_PARALLEL | DISTRIBUTED
    ]


def _is_made(program: Program, value: Value) -> bool:
    """True for an object of which the class, or the table of classes, is known."""
    if value.kind == "instance":
        return True
    if value.kind != "call" or not isinstance(value.node, ast.Call) or value.module is None:
        return False
    return bool(value.name) or bool(program.resolver.candidates(value.module, value.node.func))


# -------------------------------------------------------------------- optimizers
def _optimizers(program: Program, named: frozenset[str]) -> Iterator[Link]:
    for module, call in program.calls():
        if not isinstance(call.func, ast.Attribute) or program.is_unreached(module, call):
            continue
        if call.func.attr != "step" or not _is_named(named, module, call):
            continue
        receiver = call.func.value
        values = program.resolver.values(module, receiver)
        if call.args and any(v.name.endswith("GradScaler") for v in values):
            receiver = call.args[0]
            values = program.resolver.values(module, receiver)
        if "sched" in (dotted(receiver) or "").lower():
            continue
        known = [v for v in values if _is_optimizer(program, v)]
        told = (dotted(receiver) or "").lower()
        if known or "optim" in told or told.endswith("opt"):
            yield _link(program, "optimizer", module, receiver, known, "the call that makes the optimizer")


def _is_optimizer(program: Program, value: Value) -> bool:
    if value.kind == "call" and isinstance(value.node, ast.Call) and value.module is not None:
        if value.name.startswith(("torch.optim.", "apex.optimizers.", "transformers.")):
            return "scheduler" not in value.name
        return bool(program.resolver.candidates(value.module, value.node.func))
    return value.kind == "instance" and not _bases(program, value).isdisjoint(_OPTIMIZERS)


_OPTIMIZERS = frozenset({"torch.optim.Optimizer", "torch.optim.optimizer.Optimizer", "torch.optim.Adam", "object", ""})


def _bases(program: Program, value: Value) -> set[str]:
    found = program.resolver.class_of(value)
    return (program.resolver.external_bases(*found) or {"object"}) if found is not None else set()


# -------------------------------------------------------------------- loaders
def _loaders(program: Program, named: frozenset[str]) -> Iterator[Link]:
    """The loader of every loop around a backward pass, also where the loop is in another function or module."""
    done: set[tuple[ast.AST, ...]] = set()
    for module, call in program.calls():
        if not (isinstance(call.func, ast.Attribute) and call.func.attr == "backward"):
            continue
        if program.is_unreached(module, call) or not _is_named(named, module, call):
            continue
        found = list(_loops(program, module, call, 0, set()))
        if not found and (call.func,) not in done:
            done.add((call.func,))
            yield _link(program, "loader", module, call, [], "a loop over batches around this backward pass")
        for owner, node in found:
            if (node,) in done:
                continue
            done.add((node,))
            known = list(_batches(program, owner, node, 0))
            link = _link(program, "loader", owner, node, known, "the call that makes what this loop reads")
            yield replace(link, is_read=True)


def _loops(
    program: Program, module: Module, node: ast.AST, depth: int, seen: set[ast.AST]
) -> Iterator[tuple[Module, ast.expr]]:
    """What is read by the loops around a place: iterated expressions, and arguments of `next` in counting loops."""
    if depth > _DEPTH:
        return
    for ancestor in module.ancestors(node):
        if isinstance(ancestor, ast.For | ast.While):
            if isinstance(ancestor, ast.For) and not _is_counting(ancestor.iter):
                if _is_batches(program, module, ancestor):
                    yield module, ancestor.iter
                    return
            taken = [(module, _iterator(n)) for n in ast.walk(ancestor) if _takes_next(n)]
            if taken:
                yield from taken
                return
        if isinstance(ancestor, FunctionNode):
            if ancestor in seen:
                return
            for caller, use in program.resolver.uses_of(ancestor):
                inside = list(_loops(program, caller, use, depth + 1, seen | {ancestor}))
                yield from inside or _engines(program, caller, use)
            return


def _engines(program: Program, module: Module, use: ast.AST) -> Iterator[tuple[Module, ast.expr]]:
    """The loader that a library's engine is run with: `engine = Engine(step)` and then `engine.run(loader)`."""
    made = module.parents.get(use)
    if not isinstance(made, ast.Call) or use is made.func:
        return
    for owner, call in program.calls():
        if isinstance(call.func, ast.Attribute) and (call.args or call.keywords):
            if any(value.node is made for value in program.resolver.values(owner, call.func.value)):
                given = [*call.args, *(keyword.value for keyword in call.keywords)]
                yield from (
                    (owner, one) for one in given if any(_is_loader(v) for v in _batches(program, owner, one, 0))
                )


def _is_loader(value: Value) -> bool:
    return value.kind == "call" and value.name in DATA_LOADER


def _named(program: Program) -> frozenset[str]:
    """Every name and text of the program by which something may be called."""
    names: set[str] = set()
    for node in (n for module in program.modules for n in module.nodes):
        if isinstance(node, ast.Name | ast.Attribute | ast.alias):
            told = (
                node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else node.name
            )
            names.add(told)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            names.add(node.value)
    return frozenset(names)


def _is_named(named: frozenset[str], module: Module, node: ast.AST) -> bool:
    """False in a function that nothing in the program names."""
    function = module.enclosing_function(node)
    return function is None or function.name in named or bool(function.decorator_list)


def _is_counting(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and (dotted(node.func) or "").rpartition(".")[2] in _COUNTING


def _is_batches(program: Program, module: Module, loop: ast.For) -> bool:
    """False for loops over known lists (of networks, of losses), which are inside of a step."""
    values = program.resolver.values(module, _inner(module, loop.iter))
    return not values or any(v.kind != "display" for v in values)


def _takes_next(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("next", "__next__"):
        return not node.args
    return bool(node.args) and dotted(node.func) == "next"


def _iterator(node: ast.AST) -> ast.expr:
    """The iterator of `next(iterator)` and `iterator.next()`."""
    assert isinstance(node, ast.Call)
    return node.func.value if isinstance(node.func, ast.Attribute) else node.args[0]


def _inner(module: Module, node: ast.expr) -> ast.expr:
    """The loader inside `enumerate(tqdm(loader))` and its like."""
    while isinstance(node, ast.Call) and node.args and (dotted(node.func) or "").rpartition(".")[2] in _THROUGH:
        node = node.args[0]
    return node


def _batches(program: Program, module: Module, node: ast.expr, depth: int) -> Iterator[Value]:
    """What gives the batches: a DataLoader, an object or generator of the program's own, a list."""
    resolver = program.resolver
    node = _inner(module, node)
    found = module.lookup(node.id, module.scope_of.get(node, module.scope)) if isinstance(node, ast.Name) else None
    for binding in found[1] if found is not None and depth < _DEPTH else ():
        if binding.kind == "item" and isinstance(binding.value, ast.expr):  # a list of batches, one after another
            yield from _batches(program, module, binding.value, depth + 1)
    for value in resolver.values(module, node):
        if value.kind in ("instance", "display", "function"):
            yield value
        elif value.kind == "call" and isinstance(value.node, ast.Call) and value.module is not None:
            inner = _inner(value.module, value.node)
            if inner is not value.node and depth < _DEPTH:
                yield from _batches(program, value.module, inner, depth + 1)
            elif value.name in DATA_LOADER or _is_made(program, value):
                yield value
            elif resolver.callee(value.module, value.node) is not None:
                yield value  # a generator of the program's own
