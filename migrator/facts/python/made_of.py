"""What an expression is made of: the statements that may have given its names their values, and the calls in them.

In: an expression in a function.  Out: expressions, over the names of its function and the arguments of its calls.  Of several
assignments those count that may still hold: a statement that always gives the name a value hides what stands above it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrator.facts.program import Program
from migrator.facts.python.nodes import FunctionNode, argument
from migrator.facts.python.syntax import Module
from migrator.facts.randomness.random_draws import draws_shared

_DEPTH = 3


def is_drawn(program: Program, module: Module, node: ast.expr) -> bool:
    """True when random numbers were drawn to make the value of an expression, as far as that can be seen."""
    return any(_draws(program, owner, made) for owner, made in made_of(program, module, node))


def _draws(program: Program, module: Module, node: ast.expr) -> bool:
    if draws_shared(program, module, node):
        return True
    for call in (n for n in ast.walk(node) if isinstance(n, ast.Call)):
        callee = program.resolver.callee(module, call)
        if callee is not None and isinstance(callee[1], ast.ClassDef):
            init = program.resolver.method(callee[0], callee[1], "__init__")
            if init is not None and draws_shared(program, *init):
                return True
    return False


def made_of(
    program: Program,
    module: Module,
    node: ast.expr,
    at: ast.stmt | None = None,
    seen: set[ast.AST] | None = None,
    depth: int = _DEPTH,
) -> Iterator[tuple[Module, ast.expr]]:
    """The expression, and those behind its names."""
    seen = set() if seen is None else seen
    if node in seen:
        return
    seen.add(node)
    yield module, node
    at = at or module.statement(node)
    for name in (n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)):
        keys = {_key(p) for p in (module.parents.get(name),) if isinstance(p, ast.Subscript) and p.value is name}
        for statement, value in definitions(module, at, name.id):
            yield from made_of(program, module, value, statement, seen, depth)
        for statement, value in _stores(module, module.enclosing_function(at), name.id, keys):
            yield from made_of(program, module, value, statement, seen, depth)
        for caller, given in _arguments(program, module, name) if depth else ():
            yield from made_of(program, caller, given, None, seen, depth - 1)


def definitions(module: Module, at: ast.stmt, name: str) -> Iterator[tuple[ast.stmt, ast.expr]]:
    """Assignments to a name that may hold at a statement of their function."""
    current: ast.AST = at
    while isinstance(current, ast.stmt) and not isinstance(current, FunctionNode | ast.ClassDef):
        block = module.block(current)
        for earlier in reversed(block[: block.index(current)] if current in block else []):
            yield from _bound_in(earlier, name)
            if _always_binds(earlier, name):
                return
        current = module.parents.get(current, module.tree)
        if isinstance(current, ast.For | ast.While):  # the turn before
            yield from _bound_in(current, name)


def _bound_in(statement: ast.stmt, name: str) -> Iterator[tuple[ast.stmt, ast.expr]]:
    for node in ast.walk(statement):
        value = getattr(node, "value", None) if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) else None
        value = node.iter if isinstance(node, ast.For) else value
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(value, ast.expr) and isinstance(node, ast.stmt):
            if any(_is_store(n, name) for t in targets if t for n in ast.walk(t)):
                yield node, value


def _is_store(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)


def _always_binds(statement: ast.stmt, name: str) -> bool:
    if isinstance(statement, ast.Assign):
        parts = [p for t in statement.targets for p in (t.elts if isinstance(t, ast.Tuple | ast.List) else [t])]
        return any(isinstance(p, ast.Name) and p.id == name for p in parts)
    if isinstance(statement, ast.If):
        return all(any(_always_binds(s, name) for s in way) for way in (statement.body, statement.orelse))
    return isinstance(statement, ast.With) and any(_always_binds(s, name) for s in statement.body)


def _stores(
    module: Module, function: ast.AST | None, name: str, keys: set[object]
) -> Iterator[tuple[ast.stmt, ast.expr]]:
    """`table["some"] = value`, for what is read as `table["some"]`; anything that is stored where the key is not known."""
    for node in ast.walk(function) if function is not None else ():
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and target.value.id == name:
                if not keys or None in keys or _key(target) in keys | {None}:
                    yield node, node.value


def _key(node: ast.Subscript) -> object:
    return node.slice.value if isinstance(node.slice, ast.Constant) else None


def _arguments(program: Program, module: Module, name: ast.Name) -> Iterator[tuple[Module, ast.expr]]:
    """What calls of its function give for a parameter."""
    found = module.lookup(name.id, module.scope_of.get(name, module.scope))
    for binding in found[1] if found is not None else ():
        if binding.kind != "param" or found is None:
            continue
        bound = found[0].parent is not None and found[0].parent.is_class
        for caller, call in program.resolver.call_sites(found[0].node):
            position = binding.path[0] - (1 if bound else 0) if binding.path else None
            given = argument(call, binding.target, position) if position is None or position >= 0 else None
            if given is not None:
                yield caller, given
