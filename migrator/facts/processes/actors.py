"""What runs in processes that a library starts, which join no group: actors and tasks of Ray.

In: a `Program`.  Out: the first definition that trains there.
"""

from __future__ import annotations

import ast

from migrator.facts.model import Place
from migrator.facts.program import Program


def training_actor(program: Program) -> Place | None:
    """A class or function under `ray.remote` that calls `backward`."""
    for module in program.modules:
        for node in module.nodes:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef):
                continue
            named = [module.qualified(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list]
            calls = (n.func for n in ast.walk(node) if isinstance(n, ast.Call))
            if "ray.remote" in named and any(isinstance(f, ast.Attribute) and f.attr == "backward" for f in calls):
                return Place(module.span(node), module.span(node), node.name)
    return None
