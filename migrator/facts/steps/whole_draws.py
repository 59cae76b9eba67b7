"""Numbers and choices that a step draws once, whatever its batch: how much two samples are mixed, which examples are looked at.

In: an assignment in a step.  Out: True where all processes can take what rank 0 draws: one number, or a choice of Python's own, by
a call that every process makes.  Arrays are left out, since they may hold a row for each sample of the whole batch.
"""

from __future__ import annotations

import ast

from migrator.facts.processes.uniform import passed_by
from migrator.facts.program import Program
from migrator.facts.python.nodes import has_unpacking
from migrator.facts.python.syntax import Module
from migrator.facts.randomness.random_draws import draws_random

_PYTHON = frozenset(
    f"random.{name}"
    for name in ("random", "uniform", "randint", "randrange", "choice", "choices", "sample", "gauss", "betavariate")
)
# Functions of numpy that give one number, by how many arguments they take then.
_NUMBERS = {"rand": 0, "randn": 0, "random": 0, "random_sample": 0}
_NUMBERS |= {"beta": 2, "uniform": 2, "normal": 2, "randint": 2}


def is_drawn_once(program: Program, module: Module, call: ast.expr) -> bool:
    """True for a call that draws one number or choice, in a statement to which all processes come."""
    if not isinstance(call, ast.Call) or has_unpacking(call):
        return False
    name = program.external(module, call)
    head, _, last = name.rpartition(".")
    one = head == "numpy.random" and not call.keywords and len(call.args) == _NUMBERS.get(last, -1)
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    if not (one or name in _PYTHON) or any(draws_random(program, module, value) for value in given):
        return False
    return not passed_by(program, module, module.statement(call))
