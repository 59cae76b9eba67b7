"""Seeds that the operating system gives: `numpy.random.seed()` without a number is another one in every process.

In: a `Program`.  Out: these calls; the note says where a call is run: in the `process`, or in a `worker` of a loader, which belongs
to no process group.
"""

from __future__ import annotations

import ast

from migrator.facts.model import Place
from migrator.facts.program import Program
from migrator.facts.python.nodes import argument
from migrator.facts.python.syntax import Module
from migrator.facts.randomness.set_order import IN_WORKERS

_SEEDING = frozenset({"numpy.random.seed", "random.seed", "torch.seed", "torch.random.seed"})


def reseeded(program: Program) -> list[Place]:
    """Calls that seed a stream of random numbers by nothing that is known."""
    return [
        Place(
            module.span(call),
            module.span(module.statement(call)),
            module.segment(call),
            "worker" if runs_in_worker(program, module, call) else "process",
        )
        for module, call in program.calls()
        if program.external(module, call) in _SEEDING and _gives_nothing(call)
    ]


def _gives_nothing(call: ast.Call) -> bool:
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return all(isinstance(value, ast.Constant) and value.value is None for value in given)


def runs_in_worker(program: Program, module: Module, node: ast.AST) -> bool:
    """True in what the workers of a loader run: a data set's items, a collate function, a `worker_init_fn`."""
    for ancestor in module.ancestors(node):
        if isinstance(ancestor, ast.Lambda) and _is_given(module.parents.get(ancestor)):
            return True
        if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef):
            return bool(IN_WORKERS.match(ancestor.name)) or any(
                _names(argument(call, "worker_init_fn", None), ancestor.name) for _, call in program.calls()
            )
    return False


def _is_given(node: ast.AST | None) -> bool:
    return isinstance(node, ast.keyword) and node.arg == "worker_init_fn"


def _names(value: ast.expr | None, name: str) -> bool:
    return value is not None and any(getattr(n, "id", getattr(n, "attr", "")) == name for n in ast.walk(value))
