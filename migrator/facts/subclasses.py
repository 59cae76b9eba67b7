"""What a project's own subclass of DataParallel does otherwise than torch's.

In: a `Program` and the class.  Out: the reason why equal shares and joined outputs would not do the same, or the empty text when
the class only chooses shares or places, as one that gives the first GPU less to do.
"""

from __future__ import annotations

import ast
import re

from migrator.facts.nodes import dotted
from migrator.facts.program import Program
from migrator.facts.syntax import Module, Span
from migrator.facts.wrapper_names import DATA_PARALLEL

_SLICES = re.compile(r"(^|\.)(scatter\w*|chunk|split|narrow|tensor_split)$")
_METHODS = ("replicate", "gather", "scatter", "forward")


def own_way(program: Program, at: Span) -> str:
    """Why the subclass that is called at a place cannot be replaced by equal shares of the batch."""
    module = program.module_at(at)
    call = next((n for n in module.nodes if isinstance(n, ast.Call) and module.span(n) == at), None)
    callee = program.resolver.callee(module, call) if call is not None else None
    if callee is None or not isinstance(callee[1], ast.ClassDef):
        return ""
    for name in _METHODS:
        method = program.resolver.method(callee[0], callee[1], name)
        if method is None:
            continue
        calls = [dotted(n.func) or "" for n in ast.walk(method[1]) if isinstance(n, ast.Call)]
        if name == "replicate":
            return "its replicate() ties the replicas to each other, as synchronised batch norm does"
        if name == "gather":
            return "its gather() does not join the outputs as torch's does"
        if name == "scatter" and not (_slices(method[1]) or any(_SLICES.search(c) for c in calls)):
            return "its scatter() does not cut the batch into equal parts"
        if name == "forward" and not any(c in ("self.gather", "super.forward") for c in calls):
            if not any(isinstance(n, ast.Attribute) and n.attr == "forward" for n in ast.walk(method[1])):
                return "its forward() does not end with the joined outputs"
    return ""


def _slices(function: ast.AST) -> bool:
    return any(isinstance(n, ast.Slice) and n.lower is not None and n.upper is not None for n in ast.walk(function))


def is_mentioned(program: Program, at: Span) -> bool:
    """False when the place is in a function that nothing in the program names."""
    module = program.module_at(at)
    node = next((n for n in module.nodes if isinstance(n, ast.Call) and module.span(n) == at), None)
    outer = [a for a in module.ancestors(node) if isinstance(a, ast.FunctionDef)] if node is not None else []
    if not outer or module.parents.get(outer[-1]) is not module.tree:
        return True
    name, inside = outer[-1].name, set(ast.walk(outer[-1]))
    return any(
        (isinstance(n, ast.Name) and n.id == name)
        or (isinstance(n, ast.Attribute) and n.attr == name)
        or (isinstance(n, ast.alias) and n.name == name and other is program.entry_module)
        or (isinstance(n, ast.Constant) and n.value == name)
        for other in program.modules
        for n in other.nodes
        if n not in inside
    )


def class_tests(program: Program) -> list[tuple[Module, ast.expr]]:
    """Names of own subclasses of DataParallel as the second argument of `isinstance`."""
    found = []
    for module, call in program.calls():
        if dotted(call.func) != "isinstance" or len(call.args) != 2:
            continue
        classes = call.args[1].elts if isinstance(call.args[1], ast.Tuple) else [call.args[1]]
        for one in classes:
            definition = program.resolver.definition(module.qualified(one), module)
            if definition is not None and isinstance(definition[1], ast.ClassDef):
                if program.resolver.external_bases(definition[0], definition[1]) & DATA_PARALLEL:
                    found.append((module, one))
    return found
