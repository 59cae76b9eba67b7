"""Whether a program seeds its random numbers itself, so that all processes begin with the same ones."""

from __future__ import annotations

import ast

from migrator.facts.code import Code
from migrator.facts.python.conditions import always_runs
from migrator.facts.python.nodes import FunctionNode, argument, dotted
from migrator.facts.python.syntax import Module


def seeds_itself(code: Code) -> bool:
    """True when the program always seeds every source of random numbers that it uses."""
    seeded: set[str] = set()
    used = {"torch"}
    for module, call in code.calls():
        name = code.external(module, call)
        source = "numpy" if name.startswith("numpy.random.") else name.split(".")[0]
        if name in ("torch.manual_seed", "numpy.random.seed", "random.seed"):
            if always_runs(code, module, call, 0) and all(_is_fixed(code, module, a, 0) for a in call.args):
                seeded.add(source)
        elif name.startswith(("numpy.random.", "random.")):
            used.add(source)
    return used <= seeded


def _is_fixed(code: Code, module: Module, node: ast.AST, depth: int) -> bool:
    """True when a seed is a constant or an option: nothing on the way to it is drawn, or read from a clock."""
    if depth > 4 or any(
        isinstance(n, ast.Call) and (dotted(n.func) or "") not in ("int", "hash", "abs") for n in ast.walk(node)
    ):
        return False
    for part in ast.walk(node):
        values: list[tuple[Module, ast.AST]] = []
        if isinstance(part, ast.Attribute):
            writes = code.resolver.attribute_writes.get(part.attr, ())
            values = [(owner, value) for owner, _, value, _ in writes if value is not None]
        elif isinstance(part, ast.Name):
            found = module.lookup(part.id, module.scope_of.get(part, module.scope))
            for binding in found[1] if found and not isinstance(module.parents.get(part), ast.Attribute) else []:
                if binding.kind == "param" and found is not None and isinstance(found[0].node, FunctionNode):
                    position = binding.path[0] if binding.path else None
                    for owner, site in code.resolver.call_sites(found[0].node):
                        given = argument(site, binding.target, position)
                        values += [(owner, given)] if given is not None else []
                elif binding.value is not None:
                    values.append((module, binding.value))
        if not all(_is_fixed(code, owner, value, depth + 1) for owner, value in values):
            return False
    return True
