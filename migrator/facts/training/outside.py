"""What is trained outside the wrapped models: heads beside a wrapped part, criteria that have parameters.

In: a `Program`.  Out: the statements that make optimizers for such parameters.  Every process trains these itself.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from migrator.facts.model import Place
from migrator.facts.program import Program
from migrator.facts.python.nodes import argument, names_in
from migrator.facts.python.out_of_sight import is_optimizer
from migrator.facts.python.syntax import Module
from migrator.facts.python.values import Value

_LAYER = re.compile(r"torch\.nn\.(\w+\.)*[A-Z]\w*$")
_GIVERS = frozenset(["parameters", "named_parameters", "trainable_parameters"])


def outside_optimizers(program: Program) -> list[Place]:
    """Optimizers of parameters that no wrap covers; the note is the name that the optimizer gets."""
    covered = _covered(program)
    found = []
    for module, call in program.calls():
        statement = module.statement(call)
        if not is_optimizer(program, module, call) or not isinstance(statement, ast.Assign):
            continue
        target = statement.targets[0]
        if statement.value is not call or not isinstance(target, ast.Name | ast.Attribute):
            continue
        owners = list(_owners(program, module, argument(call, "params", 0), 0))
        if any(_is_outside(program, owner_module, owner, covered) for owner_module, owner in owners):
            found.append(Place(module.span(call), module.span(statement), module.segment(call), module.segment(target)))
    return found


@dataclass(frozen=True, slots=True)
class _Covered:
    """Where the wrapped modules were made, their classes, and where the modules were made of which only a part is wrapped."""

    wholes: frozenset[ast.AST]
    classes: frozenset[ast.AST]
    partly: frozenset[ast.AST]


def _covered(program: Program) -> _Covered:
    wholes: set[Value] = set()
    partly: set[Value] = set()
    for wrap in program.wraps:
        module = program.module_at(wrap.inner)
        for node in module.nodes:
            if isinstance(node, ast.expr) and module.span(node) == wrap.inner:
                wholes.update(program.resolver.values(module, node))
                if isinstance(node, ast.Attribute):
                    partly.update(v for v in program.resolver.values(module, node.value) if v.is_call)
    return _Covered(
        frozenset(v.node for v in wholes if v.node is not None),
        frozenset(cls for v in wholes for cls in _classes(program, v)),
        frozenset(v.node for v in partly if v.node is not None),
    )


def _classes(program: Program, value: Value) -> set[ast.AST]:
    if value.kind != "instance" or not isinstance(value.node, ast.Call) or value.module is None:
        return set()
    found = program.resolver.definition(value.module.qualified(value.node.func), value.module)
    if found is None or not isinstance(found[1], ast.ClassDef):
        return set()
    return program.resolver.family(found[0], found[1])


def _owners(program: Program, module: Module, node: ast.AST | None, depth: int) -> Iterator[tuple[Module, ast.expr]]:
    """The objects whose `.parameters()` an expression holds, also through names and lists."""
    if node is None or depth > 5:
        return
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in _GIVERS:
            yield module, part.func.value
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            found = module.lookup(part.id, module.scope_of.get(part, module.scope))
            for binding in found[1] if found else ():
                if binding.kind in ("assign", "item") and not (binding.kind == "assign" and binding.path):
                    yield from _owners(program, module, binding.value, depth + 1)


def _is_outside(program: Program, module: Module, owner: ast.expr, covered: _Covered) -> bool:
    values = program.resolver.values(module, owner)
    if any(v.node in covered.partly for v in values):
        return True
    scope = module.scope_of.get(owner, module.scope)
    inside = scope.owner_class is not None and scope.owner_class.node in covered.classes
    if _is_wrapped(program, module, owner) or (inside and scope.self_name in names_in(owner)):
        return False
    made = [v for v in values if v.kind == "instance" or _is_layer_beside(v, covered)]
    return bool(made) and not any(v.node in covered.wholes for v in made)


def _is_wrapped(program: Program, module: Module, owner: ast.expr) -> bool:
    """True for a wrapped model, and for a part of one: `model.module.head`."""
    part = owner
    while isinstance(part, ast.Attribute):
        if part.attr == "module" and program.is_wrapped(module, part.value):
            return True
        part = part.value
    return program.is_wrapped(module, owner)


def _is_layer_beside(value: Value, covered: _Covered) -> bool:
    """True for a layer of torch's that no wrapped class makes for itself."""
    if value.kind != "call" or value.module is None or value.node is None or not _LAYER.match(value.name):
        return False
    scope = value.module.scope_of.get(value.node, value.module.scope)
    return scope.owner_class is None or scope.owner_class.node not in covered.classes
