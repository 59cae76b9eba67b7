"""Whether the known calls of a function are all that the program does with it.

In: a `Program`, a function or class and the number of its known calls.  Out: False where it is also named otherwise: passed on,
stored, or called through a name that could not be followed.
"""

from __future__ import annotations

import ast

from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module


def all_known(program: Program, function: ast.FunctionDef | ast.ClassDef, known: int) -> bool:
    """True when every mention of the function's name is one of its known calls."""
    is_method = any(isinstance(m.parents.get(function), ast.ClassDef) for m in program.modules)
    mentions = 0
    for module in program.modules:
        for node in module.nodes:
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            if name == function.name and not _is_another(module, node, is_method):
                mentions += 1
    return mentions == known


def _is_another(module: Module, node: ast.AST, is_method: bool) -> bool:
    """True for what a library defines, for a variable, and for an object's attribute where no method is looked for."""
    if isinstance(node, ast.Attribute):
        if (module.qualified(node) or "").startswith(("torch.", "numpy.", "torchvision.")):
            return True
        if is_method:
            return False
    while isinstance(node, ast.Attribute):
        node = node.value  # of `model.train` it is the model
    found = module.lookup(node.id, module.scope_of.get(node, module.scope)) if isinstance(node, ast.Name) else None
    bindings = found[1] if found is not None else []  # of a name that nothing binds: what a star import gives
    kinds = {"import", "def", "class"}
    return bool(bindings) and not any(b.kind in kinds or _is_imported(b.value) for b in bindings)


def _is_imported(value: ast.AST | None) -> bool:
    return isinstance(value, ast.Call) and (dotted(value.func) or "").endswith(("import_module", "__import__"))
