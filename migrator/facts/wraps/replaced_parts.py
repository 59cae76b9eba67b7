"""Where a part of a wrapped model is replaced: DistributedDataParallel goes on to average the gradients of the part that was there.

In: a statement or call.  Out: True for `model.module.head = …`, deeper ones and those by index, `setattr(model.module, …)`, and the
same through another name of the network, `net.head = …` behind `model = DataParallel(net)`.
"""

from __future__ import annotations

import ast

from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module
from migrator.facts.wraps.past_wrapper import is_past_wrapper

_VALUES = frozenset(["data", "grad", "training", "requires_grad"])  # what is written into a part, or said about it


def replaces_part(program: Program, module: Module, node: ast.AST) -> bool:
    """True when the node puts something else into the place of a part of a wrapped model."""
    if isinstance(node, ast.Call):
        is_set = dotted(node.func) == "setattr" and len(node.args) == 3 and not releases(node)
        return is_set and _is_inside(program, module, node.args[0], node)
    if not isinstance(node, ast.Assign):
        return False
    targets = [t for target in node.targets for t in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return any(_is_part(program, module, target, node) for target in targets)


def releases(node: ast.AST) -> bool:
    """`setattr(parameter, "requires_grad", …)`."""
    if not isinstance(node, ast.Call) or dotted(node.func) != "setattr" or len(node.args) != 3:
        return False
    return isinstance(node.args[1], ast.Constant) and node.args[1].value == "requires_grad"


def _is_part(program: Program, module: Module, target: ast.expr, statement: ast.Assign) -> bool:
    if not isinstance(target, ast.Attribute | ast.Subscript):
        return False
    if isinstance(target, ast.Attribute) and target.attr == "module" and program.is_wrapped(module, target.value):
        return True
    chain = [n.attr for n in ast.walk(target) if isinstance(n, ast.Attribute)]
    if _VALUES & set(chain) or not _is_inside(program, module, target.value, statement):
        return False
    direct = isinstance(target.value, ast.Attribute) and target.value.attr == "module"
    return direct or not isinstance(statement.value, ast.Constant)


def _is_inside(program: Program, module: Module, node: ast.expr, where: ast.AST) -> bool:
    """True for the network inside a wrapper and for what belongs to it."""
    while True:
        if isinstance(node, ast.Attribute) and node.attr == "module":
            return True
        if isinstance(node, ast.Name) and (
            is_past_wrapper(program, module, node) or _was_wrapped(program, module, node, where)
        ):
            return True
        if not isinstance(node, ast.Attribute | ast.Subscript):
            return False
        node = node.value


def _was_wrapped(program: Program, module: Module, name: ast.Name, where: ast.AST) -> bool:
    """True for the name that a wrapper was given above, in the same function, and that still is the bare network's."""
    scope, start = module.scope_of.get(where, module.scope), module.span(where).start
    for wrap in program.wraps:
        if wrap.at.path != module.path or wrap.at.end > start or program.text(wrap.inner) != name.id:
            continue
        if program.text(wrap.statement).partition("=")[0].strip() == name.id:
            continue  # the name is the wrapper's from there on
        node = next(n for n in module.nodes if isinstance(n, ast.Call) and module.span(n) == wrap.at)
        if module.scope_of.get(node, module.scope) is scope:
            return True
    return False
