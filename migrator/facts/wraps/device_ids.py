"""The GPUs that a wrap names.

In: a linked program.  Out: the first wrap that names some, and their numbers.
"""

from __future__ import annotations

import ast

from migrator.facts.program import Program
from migrator.facts.python.nodes import argument
from migrator.facts.python.syntax import Span


def named_devices(program: Program) -> tuple[Span, tuple[str, ...]] | None:
    """`device_ids=[0, 1]`, where the numbers are written out."""
    for wrap in program.wraps:
        module = program.module_at(wrap.at)
        call = next((n for n in module.nodes if isinstance(n, ast.Call) and module.span(n) == wrap.at), None)
        ids = argument(call, "device_ids", 1) if call is not None and wrap.kind == "class" else None
        if isinstance(ids, ast.List | ast.Tuple) and all(isinstance(e, ast.Constant) for e in ids.elts) and ids.elts:
            return wrap.at, tuple(str(e.value) for e in ids.elts if isinstance(e, ast.Constant))
    return None
