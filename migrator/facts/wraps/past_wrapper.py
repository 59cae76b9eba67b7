"""Which names stand for the network inside its wrapper, although they are called like the wrapped model.

In: what is called.  Out: True for `net` after `net = model.module`, also over arguments and attributes.  A forward pass of the
bare network leaves its gradients on each process.
"""

from __future__ import annotations

import ast

from migrator.facts.program import Program
from migrator.facts.python.nodes import argument, dotted
from migrator.facts.python.syntax import Module


def is_past_wrapper(program: Program, module: Module, node: ast.AST, depth: int = 4) -> bool:
    """True when an expression may hold the bare network of a wrapped model."""
    if isinstance(node, ast.Attribute) and node.attr == "module":
        return program.is_wrapped(module, node.value)
    if isinstance(node, ast.Call) and dotted(node.func) == "getattr" and len(node.args) > 1:
        named = node.args[1]
        return isinstance(named, ast.Constant) and named.value == "module" and program.is_wrapped(module, node.args[0])
    if isinstance(node, ast.IfExp):
        return any(is_past_wrapper(program, module, side, depth) for side in (node.body, node.orelse))
    if not depth:
        return False
    if isinstance(node, ast.Attribute):
        written = program.resolver.attribute_writes.get(node.attr, ())
        return any(value is not None and is_past_wrapper(program, m, value, depth - 1) for m, _, value, *_ in written)
    if not isinstance(node, ast.Name):
        return False
    found = module.lookup(node.id, module.scope_of.get(node, module.scope))
    for binding in found[1] if found else ():
        if binding.kind == "assign" and binding.value is not None and not binding.path:
            if is_past_wrapper(program, module, binding.value, depth - 1):
                return True
    return any(is_past_wrapper(program, m, given, depth - 1) for m, given in given_for(program, module, node))


def given_for(program: Program, module: Module, node: ast.AST) -> list[tuple[Module, ast.expr]]:
    """What the calls of its function give for a parameter; nothing for what is none."""
    found = module.lookup(node.id, module.scope_of.get(node, module.scope)) if isinstance(node, ast.Name) else None
    given = []
    for binding in found[1] if found is not None else ():
        if binding.kind == "param" and found is not None:
            bound = found[0].parent is not None and found[0].parent.is_class
            for caller, call in program.resolver.call_sites(found[0].node):
                position = binding.path[0] - (1 if bound else 0) if binding.path else None
                value = argument(call, binding.target, position) if position is None or position >= 0 else None
                given += [(caller, value)] if value is not None else []
    return given
