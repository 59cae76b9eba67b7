"""The backward passes of a program's training.

In: a `Program`.  Out: calls of `backward`, without those that nothing leads to and those that are an operation's own gradient: a
library function called `backward` inside the `backward` of an autograd function.
"""

from __future__ import annotations

import ast

from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module

_FUNCTION = "torch.autograd.Function"


def backward_passes(program: Program) -> list[tuple[Module, ast.Call]]:
    """All of them, in source order."""
    return [
        (module, call)
        for module, call in program.calls()
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "backward"
        and not program.is_unreached(module, call)
        and not _is_gradient(program, module, call)
    ]


def _is_gradient(program: Program, module: Module, call: ast.Call) -> bool:
    function = module.enclosing_function(call)
    owner = module.parents.get(function) if function is not None and function.name == "backward" else None
    if not isinstance(owner, ast.ClassDef):
        return False
    if not any(base.startswith(_FUNCTION) for base in program.resolver.external_bases(module, owner)):
        return False
    library = (dotted(call.func) or "").partition(".")[0]
    return library in module.imports and not program.external(module, call).startswith("torch.")
