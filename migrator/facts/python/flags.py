"""Options of the command line that are equal in all processes."""

from __future__ import annotations

import ast

from migrator.facts.code import Code
from migrator.facts.python.nodes import argument


def flags(code: Code) -> frozenset[str]:
    """Options of the command line with a written default that no statement sets: equal in all processes."""
    given: set[str] = set()
    changing = {
        node.attr
        for module in code.modules
        for node in module.nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    for _, call in code.calls():
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "add_argument":
            continue
        names = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        default = argument(call, "default", None)
        if names and argument(call, "dest", None) is None:
            name = next((n for n in names if n.startswith("--")), names[0]).lstrip("-").replace("-", "_")
            read = default is not None and any(isinstance(n, ast.Call | ast.Name) for n in ast.walk(default))
            (changing if read else given).add(name)
    return frozenset(given - changing)
