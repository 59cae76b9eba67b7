"""Branches that a process must not take alone.

In: a `Program` and an `if`.  Out: whether a branch leaves, asks the user or draws random numbers.
"""

from __future__ import annotations

import ast

from migrator.facts.nodes import dotted
from migrator.facts.program import Program
from migrator.facts.syntax import Module

_DRAWS = ("torch.rand", "torch.utils.data.random_split", "torch.normal", "numpy.random.", "random.")
_ENDS = ("sys.exit", "exit", "quit", "os._exit", "input")


def divides(program: Program, module: Module, node: ast.If) -> bool:
    """True when a branch leaves, asks the user or draws random numbers: for all processes or none."""
    handled = {
        n for h in ast.walk(node) if isinstance(h, ast.ExceptHandler) for n in ast.walk(h)
    }  # goes on, or ends all
    for part in (*node.body, *node.orelse):
        for inner in ast.walk(part):
            if isinstance(inner, ast.Return | ast.Raise | ast.Break | ast.Continue) and inner not in handled:
                return True
            if isinstance(inner, ast.Call):
                name = program.external(module, inner)
                if (dotted(inner.func) or "") in _ENDS or name.startswith(_DRAWS):
                    return True
    return False
