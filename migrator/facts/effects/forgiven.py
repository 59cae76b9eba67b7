"""Folders that a program makes and does not mind to find there.

In: a module and an effect in it.  Out: whether the program passes over the error itself.
"""

from __future__ import annotations

import ast

from migrator.facts.model import Effect
from migrator.facts.python.syntax import Module


def is_forgiven(module: Module, effect: Effect) -> bool:
    """True when the program itself passes over a folder that is there already."""
    call = next((n for n in module.nodes if isinstance(n, ast.Call) and module.span(n) == effect.at), None)
    tried = module.enclosing(call, ast.Try) if call is not None else None
    if not isinstance(tried, ast.Try) or not any(s.lineno <= effect.at.line <= (s.end_lineno or 0) for s in tried.body):
        return False
    return any(
        "FileExistsError" in (text := module.segment(handler)) or "EEXIST" in text or "isdir" in text
        for handler in tried.handlers
    )
