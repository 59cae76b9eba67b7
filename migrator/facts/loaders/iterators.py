"""Iterators over loaders: what `next(it)` gives, and from which loaders it comes.

In: a `Program` and an expression.  Out: the DataLoader calls behind it; none where it may give anything but their batches, as they
are.  Known are `iter(loader)`, `itertools.cycle(loader)`, generators that yield the batches of a loader, and classes of the
program's own whose `next` does.  Each may begin the loader again: all processes do so in the same step, as their loaders are
equally long.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrator.facts.loaders.loaders import DATA_LOADER, iterated, loaders_at
from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module
from migrator.facts.python.values import Value

Loaders = list[tuple[Module, ast.Call]]
_NEXT = ("next", "__next__")
_DEPTH = 5


def drawn_from(node: ast.AST) -> ast.expr | None:
    """`it` of `next(it)`, `it.next()` and `it.__next__()`."""
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    if isinstance(node.func, ast.Name) and node.func.id == "next" and len(node.args) == 1:
        return node.args[0]
    if isinstance(node.func, ast.Attribute) and node.func.attr in _NEXT and not node.args:
        return node.func.value
    return None


def loaders_behind(program: Program, module: Module, node: ast.AST, depth: int = 0) -> Loaders:
    """The loaders whose batches an iterator gives; none where it may give something else."""
    found: dict[tuple[Module, ast.Call], None] = {}
    for value in program.resolver.values(module, node):
        if value.kind == "constant" and getattr(value.node, "value", 0) is None:
            continue  # not begun yet
        if value.kind == "call" and value.name in DATA_LOADER:
            continue  # what the name held before: a loader is no iterator
        inner = _behind(program, value, depth)
        if not inner:
            return []
        found |= dict.fromkeys(inner)
    return list(found)


def loaders_in(program: Program, module: Module, node: ast.expr, depth: int = 0) -> Loaders:
    """The loaders that a loop over an expression goes over, directly or through an iterator."""
    inner = iterated(program, module, node)
    return loaders_at(program, module, inner) or loaders_behind(program, module, inner, depth)


def _behind(program: Program, value: Value, depth: int) -> Loaders:
    call, module = value.node, value.module
    if depth > _DEPTH or module is None or not isinstance(call, ast.Call):
        return []
    if value.kind == "instance":
        return _of_class(program, value, depth)
    if program.external(module, call) in ("iter", "itertools.cycle") or dotted(call.func) == "iter":
        if len(call.args) != 1 or call.keywords:
            return []
        return _of_itself(program, module, call) or loaders_in(program, module, call.args[0], depth + 1)
    callee = program.resolver.callee(module, call)
    return _of_generator(program, *callee, depth) if callee is not None else []


def _of_itself(program: Program, module: Module, call: ast.Call) -> Loaders:
    """The loaders of `loader = cycle(loader)`, which takes over their name."""
    values = program.resolver.values(module, call.args[0])
    before = [value for value in values if value.node is not call]
    if len(before) == len(values) or any(value.name not in DATA_LOADER for value in before):
        return []
    return [(v.module, v.node) for v in before if v.module is not None and isinstance(v.node, ast.Call)]


def _of_class(program: Program, value: Value, depth: int) -> Loaders:
    """Through a method `next` that gives back nothing but what it draws."""
    owner = program.resolver.class_of(value)
    methods = [program.resolver.method(*owner, name) for name in _NEXT] if owner is not None else []
    method = next((m for m in methods if m is not None), None)
    if method is None:
        return []
    given = list(program.resolver.returns(*method))
    return _all_of(program, [(m, node) for m, node in given if node is not None], depth)


def _of_generator(program: Program, module: Module, function: ast.AST, depth: int) -> Loaders:
    """Through a function that yields nothing but batches."""
    if not isinstance(function, ast.FunctionDef):
        return []
    scope = module.scopes[function]
    yields = [n for n in ast.walk(function) if isinstance(n, ast.Yield | ast.YieldFrom)]
    own = [n for n in yields if module.scope_of.get(n) is scope]
    found: Loaders = []
    for node in own:
        if isinstance(node, ast.YieldFrom):
            inner = loaders_in(program, module, node.value, depth + 1)
        else:
            inner = _all_of(program, [(module, node.value)], depth) if node.value is not None else []
        if not inner:
            return []
        found += inner
    return found


def _all_of(program: Program, nodes: list[tuple[Module, ast.AST]], depth: int) -> Loaders:
    """The loaders behind expressions each of which is a batch: drawn, or the variable of a loop over a loader."""
    found: Loaders = []
    for module, node in nodes:
        sources = list(_sources(module, node))
        for source in sources:
            inner = (
                loaders_in(program, module, source.iter, depth + 1)
                if isinstance(source, ast.For)
                else loaders_behind(program, module, source, depth + 1)
            )
            if not inner:
                return []
            found += inner
        if not sources:
            return []
    return found


def _sources(module: Module, node: ast.AST) -> Iterator[ast.For | ast.expr]:
    """What a batch is drawn from, or the loop that gives it its name; nothing where it may be something else."""
    source = drawn_from(node)
    if source is not None:
        yield source
        return
    names = [node] if isinstance(node, ast.Name) else node.elts if isinstance(node, ast.Tuple) else []
    written = module.segment(node).replace(" ", "").strip("()")
    found: list[ast.For | ast.expr] = []
    for name in names:
        bound = module.lookup(name.id, module.scope_of.get(name, module.scope)) if isinstance(name, ast.Name) else None
        for binding in bound[1] if bound is not None else []:
            statement = module.statement(binding.node)
            target = _given(statement) if isinstance(statement, ast.For) else None
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                target = statement.targets[0]
            if target is None or module.segment(target).replace(" ", "").strip("()") != written:
                return  # a part of a batch, or something made of it
            origin = statement if isinstance(statement, ast.For) else drawn_from(binding.value or statement)
            if origin is None:
                return
            found.append(origin)
        if bound is None:
            return
    yield from dict.fromkeys(found)


def _given(loop: ast.For) -> ast.expr:
    """What a loop calls the batch."""
    counted = isinstance(loop.iter, ast.Call) and dotted(loop.iter.func) == "enumerate"
    if counted and isinstance(loop.target, ast.Tuple) and len(loop.target.elts) == 2:
        return loop.target.elts[1]
    return loop.target


def is_inside_iterator(module: Module, node: ast.AST) -> bool:
    """True in a generator, and in the method of an iterator that gives the next batch."""
    function = module.enclosing_function(node)
    if not isinstance(function, ast.FunctionDef):
        return False
    scope = module.scopes[function]
    return function.name in _NEXT or any(
        isinstance(n, ast.Yield | ast.YieldFrom) and module.scope_of.get(n) is scope for n in ast.walk(function)
    )
