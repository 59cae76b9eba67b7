"""Parameters that a network sets while it runs: layers that take their first values from the first batch.

In: a `Program`.  Out: the statements that write to a parameter in a forward pass.  DataParallel kept what its first replica wrote;
processes that see different rows would go on with different values.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module


@lru_cache(maxsize=2)
def parameter_writes(program: Program) -> list[tuple[Module, ast.stmt]]:
    """Statements such as `self.shift.data.copy_(...)` in what `forward` runs."""
    found = []
    for module in program.modules:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef) and not program.is_unreached(module, node):
                if any(base.startswith("torch.nn.") for base in program.resolver.external_bases(module, node)):
                    found += [(module, statement) for statement in _writes(node)]
    return found


def _writes(owner: ast.ClassDef) -> Iterator[ast.stmt]:
    methods = {s.name: s for s in owner.body if isinstance(s, ast.FunctionDef)}
    own = {
        target.attr
        for method in methods.values()
        for n in ast.walk(method)
        if isinstance(n, ast.Assign)
        and isinstance(n.value, ast.Call)
        and (dotted(n.value.func) or "").rpartition(".")[2] == "Parameter"
        for target in n.targets
        if isinstance(target, ast.Attribute) and dotted(target.value) == "self"
    }
    queue, seen = ["forward"], set()
    while queue and own:
        name = queue.pop()
        if name in seen or name not in methods:
            continue
        seen.add(name)
        for node in ast.walk(methods[name]):
            if isinstance(node, ast.Call) and (dotted(node.func) or "").startswith("self."):
                queue.append((dotted(node.func) or "").split(".")[1])
            if isinstance(node, ast.Expr | ast.Assign) and _data_of(node) in own:
                yield node


def _data_of(statement: ast.Expr | ast.Assign) -> str:
    """The `x` of `self.x.data.copy_(v)` and of `self.x.data = v`."""
    if isinstance(statement, ast.Assign):
        target: ast.expr = statement.targets[0]
        target = target.value if isinstance(target, ast.Subscript) else target
        parts = (dotted(target) or "").split(".")
        return parts[1] if len(parts) == 3 and parts[0] == "self" and parts[2] == "data" else ""
    call = statement.value
    parts = (dotted(call.func) or "").split(".") if isinstance(call, ast.Call) else []
    in_place = len(parts) == 4 and parts[0] == "self" and parts[2] == "data" and parts[3].endswith("_")
    return parts[1] if in_place else ""
