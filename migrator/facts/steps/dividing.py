"""Branches that a process must not take alone.

In: a `Program` and an `if`.  Out: whether a branch leaves, asks the user or draws random numbers; whether a folder that one branch
makes is used in another way by the other one, as a run that goes on where it stopped.
"""

from __future__ import annotations

import ast
import re

from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module

_DRAWS = ("torch.rand", "torch.utils.data.random_split", "torch.normal", "numpy.random.", "random.")
_SHOWS = re.compile(r"(^|\.)(print|info|debug|warning|warn|log|makedirs|mkdir|mkdirs)$")
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


def chooses(program: Program, module: Module, node: ast.If, asked: str) -> bool:
    """True when one branch makes the folder that is asked for, and the other one does more than to say that it is there."""
    for part, other in ((node.body, node.orelse), (node.orelse, node.body)):
        places = [module.span(statement) for statement in part]
        made = any(
            e.kind in ("folder", "path_mkdir")
            and e.path_text == asked
            and any(place.contains(e.at) for place in places)
            for e in program.effects
        )
        if made and any(_does_more(statement) for statement in other):
            return True
    return False


def _does_more(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return _SHOWS.search(dotted(statement.value.func) or "") is None
    return not isinstance(statement, ast.Pass | ast.Expr)
