"""The program's own accumulation of gradients over several batches.

In: a `Program` and its `Training`.  Out: an `Accumulation` with the places of which accelerate's form has its own, or the reason
why it was not recognised (text).  None where every batch takes a step.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from migrator.facts.program import Program
from migrator.facts.python.syntax import Module, Span
from migrator.facts.training.training import Training


@dataclass(frozen=True, slots=True)
class Accumulation:
    """`statements`: the loop's body up to the step; `number`: batches of a step, as written in the test; `divided`: the whole
    division of the loss and what is left of it."""

    loop: Span
    statements: tuple[Span, ...]
    test: Span
    number: str
    model: str
    divided: tuple[Span, Span] | None
    divided_in_place: Span | None

    at_backward: bool = False  # `(loss / number).backward()`


def read_accumulation(program: Program, training: Training) -> Accumulation | str | None:
    """How the training loop takes a step every few batches."""
    if training.loop is None:
        return None
    module = program.module_at(training.loop)
    loop = next((n for n in module.nodes if isinstance(n, ast.For) and module.span(n) == training.loop), None)
    if loop is None:
        return None
    branch = next((s for s in loop.body if isinstance(s, ast.If) and _steps(s) and "%" in module.segment(s.test)), None)
    if branch is None:
        return None
    match = re.fullmatch(r"\(?\w+ \+ 1\)? % (\w[\w.]*) == 0|\w+ % (\w[\w.]*) == 0", module.segment(branch.test))
    if match is None or branch.orelse:
        return "its step is taken on another condition than every so many batches"
    number = match[1] or match[2]
    if match[2] and not _counts_from_one(loop):
        return "its first step is taken on the first batch already"
    before = loop.body[: loop.body.index(branch)]
    model = next((m for s in before for m in _models(program, module, s)), None)
    if model is None or any(isinstance(n, ast.Break | ast.Continue) for s in before for n in ast.walk(s)):
        return "the loop is left in other ways, or the model's call could not be found"
    whole = _division(module, before, number)
    if whole is None:
        return f"the loss is not divided by {number} once: its gradients are added up, and accelerate's are averaged"
    receivers = [
        module.span(n.func.value)
        for s in before
        for n in ast.walk(s)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "backward"
    ]
    return Accumulation(
        training.loop,
        tuple(module.span(s) for s in [*before, branch]),
        module.span(branch.test),
        number,
        model,
        *whole,
        whole[0] is not None and whole[0][0] in receivers,
    )


def _steps(branch: ast.If) -> bool:
    called = [n.func.attr for n in ast.walk(branch) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    return "step" in called and "zero_grad" in called and "backward" not in called


def _counts_from_one(loop: ast.For) -> bool:
    call = loop.iter
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != "enumerate":
        return False
    start = call.args[1] if len(call.args) > 1 else next((k.value for k in call.keywords if k.arg == "start"), None)
    return isinstance(start, ast.Constant) and start.value == 1


def _models(program: Program, module: Module, statement: ast.stmt) -> list[str]:
    calls = [n for n in ast.walk(statement) if isinstance(n, ast.Call)]
    return [module.segment(c.func) for c in calls if program.is_wrapped(module, c.func)]


def _division(
    module: Module, before: list[ast.stmt], number: str
) -> tuple[tuple[Span, Span] | None, Span | None] | None:
    """The one place at which something is divided by the number."""
    found: list[tuple[tuple[Span, Span] | None, Span | None]] = []
    for statement in before:
        for node in ast.walk(statement):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and module.segment(node.right) == number:
                found.append(((module.span(node), module.span(node.left)), None))
            elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
                if module.segment(node.value) == number:
                    found.append((None, module.span(node)))
    return found[0] if len(found) == 1 else None
