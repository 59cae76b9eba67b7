"""Models that are saved whole, with the class that wraps them, and where such a file is read.

In: a linked program.  Out: what is saved, and places where a whole model may come out of a file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from migrator.facts.program import Program
from migrator.facts.python.nodes import argument, dotted
from migrator.facts.python.syntax import Module, Span


@dataclass(frozen=True, slots=True)
class WholeModel:
    """An expression that is saved: the wrapped model itself, or one of which a part is wrapped."""

    at: Span
    is_wrapped: bool


def whole_models(program: Program) -> Iterator[WholeModel]:
    """What `torch.save` is given, as a whole or in a dictionary or list, that holds a wrapped model."""
    seen: set[ast.expr] = set()
    for module, call in program.calls():
        if program.external(module, call) != "torch.save":
            continue
        for part_module, part in _parts(program, module, argument(call, "obj", 0)):
            if part in seen or _unwrapped(part):
                continue
            seen.add(part)
            if program.is_wrapped(part_module, part):
                yield WholeModel(part_module.span(part), True)
            elif _holds_wrap(program, part_module, part):
                yield WholeModel(part_module.span(part), False)


def whole_models_read(program: Program) -> list[Span]:
    """Where a whole model is read, as far as it is seen; else where something is read that may be more than weights."""
    found = [module.span(node) for module, node in _loaded_wrappers(program)]
    for module, call in () if found else program.calls():
        if program.external(module, call) != "torch.load":
            continue
        outer = module.parents.get(call)
        if not (isinstance(outer, ast.Call) and (dotted(outer.func) or "").endswith(".load_state_dict")):
            found.append(module.span(call))
    return found


def _parts(program: Program, module: Module, node: ast.expr | None) -> Iterator[tuple[Module, ast.expr]]:
    """What is saved: the expression itself, or the values of the dictionary or list that it is."""
    if node is None:
        return
    if isinstance(node, ast.Name | ast.Attribute):
        yield module, node
    for value in program.resolver.values(module, node):
        if value.kind == "display" and value.module is not None:
            items = value.node.values if isinstance(value.node, ast.Dict) else getattr(value.node, "elts", [])
            yield from ((value.module, item) for item in items if isinstance(item, ast.Name | ast.Attribute))


def _holds_wrap(program: Program, module: Module, node: ast.expr) -> bool:
    """True for a model of which a part is wrapped."""
    text = module.segment(node)
    if any(wrap.target.startswith(f"{text}.") for wrap in program.wraps):
        return True
    inside = [wrap.at for wrap in program.wraps if wrap.in_class]
    for value in program.resolver.values(module, node) if inside else ():
        if value.kind == "instance" and value.module is not None and isinstance(value.node, ast.Call):
            found = program.resolver.definition(value.module.qualified(value.node.func), value.module)
            if found is not None and any(found[0].span(found[1]).contains(at) for at in inside):
                return True
    return False


def _loaded_wrappers(program: Program) -> Iterator[tuple[Module, ast.Assign]]:
    """`model = torch.load(file)` and `model = checkpoint["model"]`, for a name that holds the wrapped model elsewhere."""
    targets = {wrap.target for wrap in program.wraps} - {""}
    for module in program.modules:
        for node in module.nodes:
            if isinstance(node, ast.Assign) and module.segment(node.targets[0]) in targets:
                value = node.value.value if isinstance(node.value, ast.Subscript) else node.value
                if any(v.kind == "call" and v.name == "torch.load" for v in program.resolver.values(module, value)):
                    yield module, node


def _unwrapped(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "module"
