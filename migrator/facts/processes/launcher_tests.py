"""Tests that torchrun's own variables decide: a distributed branch behind one is taken in the converted program too.

In: a `Program` and a place in a branch for several processes.  Out: the test that the launcher's variables decide, or None.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrator.facts.model import Place
from migrator.facts.program import Program
from migrator.facts.python.nodes import FunctionNode, argument, walk
from migrator.facts.python.syntax import Module

_VARIABLES = frozenset({"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"})
_DEPTH = 3


def launcher_test(program: Program, place: Place) -> str | None:
    """The text of a test by which torchrun's variables decide whether the place is reached."""
    module = program.module_at(place.at)
    node = next((n for n in module.nodes if isinstance(n, ast.expr) and module.span(n) == place.at), None)
    for owner, test in _tests(program, module, node, _DEPTH) if node is not None else ():
        if _asks_launcher(program, owner, test, _DEPTH):
            return " ".join(owner.segment(test).split())
    return None


def _tests(program: Program, module: Module, node: ast.AST, depth: int) -> Iterator[tuple[Module, ast.expr]]:
    """The tests around a place, those above it that may leave its function, and those around the function's calls."""
    child = node
    for ancestor in module.ancestors(node):
        if isinstance(ancestor, ast.If | ast.IfExp) and child is not ancestor.test:
            yield module, ancestor.test
        if isinstance(ancestor, FunctionNode):
            for one in walk(ancestor):
                if (
                    isinstance(one, ast.If)
                    and module.span(one).start < module.span(child).start
                    and any(map(_leaves, ast.walk(one)))
                ):
                    yield module, one.test
            for caller, site in program.resolver.call_sites(ancestor) if depth else ():
                yield from _tests(program, caller, site, depth - 1)
            return
        child = ancestor


def _leaves(node: ast.AST) -> bool:
    return isinstance(node, ast.Return)


def _asks_launcher(program: Program, module: Module, test: ast.expr, depth: int) -> bool:
    """True for a test of the variables, or of a name or an attribute whose value was made of them."""
    parts = list(ast.walk(test))
    if any(isinstance(part, ast.Constant) and part.value in _VARIABLES for part in parts):
        if any(isinstance(p, ast.Attribute) and p.attr in ("environ", "getenv") for p in parts):
            return True
    made = [value for part in parts for value in _values(program, module, part)] if depth else []
    return any(_asks_launcher(program, owner, value, depth - 1) for owner, value in made)


def _values(program: Program, module: Module, part: ast.AST) -> Iterator[tuple[Module, ast.expr]]:
    if isinstance(part, ast.Name):
        found = module.lookup(part.id, module.scope_of.get(part, module.scope))
        for binding in found[1] if found is not None else ():
            if binding.kind == "assign" and isinstance(binding.value, ast.expr):
                yield module, binding.value
    elif isinstance(part, ast.Attribute):
        for owner, _, value, _ in program.resolver.attribute_writes.get(part.attr, ()):
            if isinstance(value, ast.expr):
                yield owner, value
        for owner, call in program.calls():  # a flag whose default is the launcher's
            if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
                names = {
                    a.value.lstrip("-").replace("-", "_")
                    for a in call.args
                    if isinstance(a, ast.Constant) and isinstance(a.value, str)
                }
                default = argument(call, "default", None)
                if part.attr in names and default is not None:
                    yield owner, default
