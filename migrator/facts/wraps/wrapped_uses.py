"""Where a program reaches through a wrapper: what it loads into it, and `.module`."""

from __future__ import annotations

import ast

from migrator.facts.code import Code
from migrator.facts.model import Place
from migrator.facts.wraps.wrap_calls import WrapCalls


def wrapped_loads(code: Code, calls: WrapCalls) -> list[Place]:
    """What is loaded into a wrapped model by `load_state_dict`."""
    found = []
    for module, call in code.calls():
        if isinstance(call.func, ast.Attribute) and call.func.attr == "load_state_dict" and call.args:
            if calls.is_wrapped(module, call.func.value) and not _ends_in_module(call.func.value):
                found.append(code.place(module, call.args[0]))
    return found


def module_accesses(code: Code, calls: WrapCalls) -> list[Place]:
    """`wrapped.module`; the note is the text of the wrapped model."""
    found = []
    for module in code.modules:
        for node in module.nodes:
            if isinstance(node, ast.Attribute) and node.attr == "module" and calls.is_wrapped(module, node.value):
                found.append(code.place(module, node, module.segment(node.value)))
    return found


def _ends_in_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "module"
