"""Code that draws random numbers.

In: a statement or an expression.  Out: True when running it draws, also in the project's functions that it calls.
"""

from __future__ import annotations

import ast

from migrator.facts.program import Program
from migrator.facts.syntax import Module, walk

_RANDOM = (
    "torch.rand",
    "torch.normal",
    "torch.bernoulli",
    "torch.multinomial",
    "torch.poisson",
    "torch.nn.functional.dropout",
    "torch.nn.functional.alpha_dropout",
    "torch.nn.functional.feature_alpha_dropout",
    "torch.nn.functional.gumbel_softmax",
    "numpy.random.",
    "random.",
)
# Methods of tensors and distributions that draw.
_DRAWS = frozenset(
    ["normal_", "uniform_", "bernoulli", "bernoulli_", "random_", "exponential_", "multinomial", "rsample"]
)


def draws_random(program: Program, module: Module, node: ast.AST, depth: int = 3) -> bool:
    """True when running the code draws random numbers, also in the project's functions that it calls (not in models)."""
    for call in walk(node):
        if not isinstance(call, ast.Call):
            continue
        if program.external(module, call).startswith(_RANDOM):
            return True
        if isinstance(call.func, ast.Attribute) and call.func.attr in _DRAWS:
            return True
        callee = program.resolver.callee(module, call)
        if depth and callee is not None and isinstance(callee[1], ast.FunctionDef) and callee[1] is not node:
            if draws_random(program, callee[0], callee[1], depth - 1):
                return True
    return False
