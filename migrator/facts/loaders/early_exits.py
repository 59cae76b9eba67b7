"""Loops over batches that may be left before their loader is read to its end.

In: a `Program` and the span of a loop.  Out: whether a `break`, a `return` or a `raise` stands in it that leaves it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from migrator.facts.program import Program
from migrator.facts.python.syntax import Span


def is_left_early(program: Program, at: Span) -> bool:
    """True when the loop at a place may end while its loader has more batches."""
    module = program.module_at(at)
    loops = (n for n in module.nodes if isinstance(n, ast.For | ast.While) and module.span(n) == at)
    loop = next(loops, None)
    return loop is None or isinstance(loop, ast.While) or any(_leaving(loop.body, True))


def _leaving(body: Iterable[ast.AST], own: bool) -> Iterator[ast.AST]:
    """Statements that leave the loop of this body; `own` is False inside of a loop within it."""
    for node in body:
        if isinstance(node, ast.Return | ast.Raise) or (isinstance(node, ast.Break) and own):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            inner = isinstance(node, ast.For | ast.While)
            yield from _leaving(ast.iter_child_nodes(node), own and not inner)
