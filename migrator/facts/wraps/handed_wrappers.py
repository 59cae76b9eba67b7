"""Where DataParallel itself is handed on, to be called under another name: which model it will wrap is not in sight.

In: a `Program`.  Out: `functools.partial(nn.DataParallel, …)` and `getattr(nn, "DataParallel")`.
"""

from __future__ import annotations

import ast

from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Span
from migrator.facts.wraps.wrapper_names import DATA_PARALLEL

HANDED = "wraps a model under another name: write `nn.DataParallel(model)` where it is called, and run again"


def handed_wrappers(program: Program) -> list[tuple[Span, str]]:
    """The places, each with its text."""
    found = []
    for module, call in program.calls():
        if program.external(module, call) == "functools.partial" and call.args:
            given = program.resolver.external_name(module, call.args[0])
            is_handed = given in DATA_PARALLEL
        else:
            named = call.args[1] if dotted(call.func) == "getattr" and len(call.args) > 1 else None
            base = module.qualified(call.args[0]) if named is not None else None
            is_handed = isinstance(named, ast.Constant) and f"{base}.{named.value!s}" in DATA_PARALLEL
        if is_handed:
            found.append((module.span(call), module.segment(call)))
    return found
