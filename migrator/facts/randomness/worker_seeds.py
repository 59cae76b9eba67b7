"""What a loader's workers are seeded by: a number of the program's own is the same in all processes.

In: a `Program` and what is given as `worker_init_fn`.  Out: True where each process's workers would draw what those of the others
draw, so that the shares of a batch are augmented alike; None where the function is not in sight.  What asks the process's own
streams (`torch.initial_seed()`) differs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted, walk
from migrator.facts.python.syntax import Module
from migrator.facts.randomness.random_draws import seeded_streams

_PLAIN = frozenset({"int", "abs", "hash"})


def seeds_alike(program: Program, module: Module, given: ast.expr) -> bool | None:
    """True for a function that seeds by nothing but numbers, settings and the worker's own number; None for one not found."""
    if isinstance(given, ast.Constant):
        return False
    functions = list(_functions(program, module, given))
    if not functions:
        values = program.resolver.values(module, given)
        return False if values and all(value.kind == "constant" for value in values) else None
    return any(
        seeded_streams(program, owner, call) and bool(call.args) and _is_fixed(function, call.args[0], 0)
        for owner, function in functions
        for call in walk(function)
        if isinstance(call, ast.Call)
    )


def _functions(program: Program, module: Module, given: ast.expr) -> Iterator[tuple[Module, ast.AST]]:
    if isinstance(given, ast.Lambda):
        yield module, given
    elif isinstance(given, ast.Call) and program.external(module, given) == "functools.partial" and given.args:
        yield from _functions(program, module, given.args[0])
    else:
        for value in program.resolver.values(module, given):
            if value.module is not None and isinstance(value.node, ast.FunctionDef | ast.Lambda):
                yield value.module, value.node


def _is_fixed(function: ast.AST, seed: ast.expr, depth: int) -> bool:
    """True for an expression in which nothing is asked for: neither itself, nor what its names were given in the function."""
    calls = [n for n in ast.walk(seed) if isinstance(n, ast.Call) and dotted(n.func) not in _PLAIN]
    names = {n.id for n in ast.walk(seed) if isinstance(n, ast.Name)}
    given = [
        n.value
        for n in walk(function)
        if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id in names for t in n.targets)
    ]
    return not calls and (depth > 3 or all(_is_fixed(function, value, depth + 1) for value in given))
