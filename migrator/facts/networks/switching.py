"""Methods of a network that switch it and compute nothing: `freeze_bn`, which puts layers of BatchNorm to evaluation.

In: a method's name.  Out: True where every method of that name in the program does no more than go over the network's layers, put
them to training or evaluation, keep settings and print.  What such a method is called through does not matter.
"""

from __future__ import annotations

import ast

from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted

_LAYERS = frozenset(["modules", "named_modules", "children", "named_children"])
_SWITCHES = frozenset(["train", "eval"])
_ASKS = frozenset(["isinstance", "print", "type", "len", "super", "range", "hasattr"])


def only_switches(program: Program, name: str) -> bool:
    """True for a method that runs no layer, reads no samples and changes no parameter."""
    methods = program.resolver.methods.get(name, ())
    return bool(methods) and all(_switches(scope.node) for scope in methods)


def _switches(function: ast.AST) -> bool:
    if not isinstance(function, ast.FunctionDef) or function.decorator_list:
        return False
    return all(_is_harmless(statement) for statement in function.body)


def _is_harmless(node: ast.stmt) -> bool:
    if isinstance(node, ast.For | ast.If):
        head = node.iter if isinstance(node, ast.For) else node.test
        return _asks(head) and all(_is_harmless(s) for s in (*node.body, *node.orelse))
    if isinstance(node, ast.Assign):
        plain = all(isinstance(t, ast.Name) or _is_own(t) for t in node.targets)
        return plain and isinstance(node.value, ast.Constant | ast.Name)
    if isinstance(node, ast.AugAssign):
        return isinstance(node.target, ast.Name) and isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or (isinstance(node.value, ast.Call) and _asks(node.value))
    return isinstance(node, ast.Pass | ast.Continue | ast.Break)


def _is_own(target: ast.expr) -> bool:
    """`self.frozen`, a setting of the network's own; not `layer.weight.requires_grad`."""
    return isinstance(target, ast.Attribute) and dotted(target) == f"self.{target.attr}"


def _asks(node: ast.AST) -> bool:
    """Calls that only ask for layers, or switch them."""
    for call in (n for n in ast.walk(node) if isinstance(n, ast.Call)):
        if isinstance(call.func, ast.Attribute):
            if call.func.attr not in _LAYERS | _SWITCHES | {"find", "startswith", "format"}:
                return False
        elif dotted(call.func) not in _ASKS:
            return False
    return True
