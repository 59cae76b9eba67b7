"""Questions about files by which processes may part: one of them may just have made what the other looks for.

In: a linked program.  Out: the questions, each with whether it is about a cache, and whether all processes come to it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from migrator.facts.effects.caches import is_cache
from migrator.facts.effects.made_files import asked_about, is_made, whole_question
from migrator.facts.processes.alone import run_by_one
from migrator.facts.processes.uniform import waits_for_all
from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module, Span
from migrator.facts.steps.dividing import chooses, divides

_DEPTH = 2


@dataclass(frozen=True, slots=True)
class FileQuestion:
    """An expression that asks for a file or folder; `by_all` when every process comes to it."""

    at: Span
    cache: bool
    by_all: bool


def file_questions(program: Program) -> Iterator[FileQuestion]:
    """Questions about what the program makes itself, outside of what one process does alone."""
    alone: list[Span] = []
    answered: list[Span] = []
    for module, node, call in _asking(program):
        asked = asked_about(program, module, call)
        if asked is None:
            continue
        cache = is_cache(program, module, node, asked)
        together = _meets(program, module, node)
        divided = divides(program, module, node) or chooses(program, module, node, asked)
        parts = together or (divided and is_made(program, module, node, asked))
        if not cache and not parts:
            continue
        if not cache and _is_made_before(program, module, node, asked):
            continue
        alone = alone or run_by_one(program)
        at = whole_question(program, module, call, asked)
        if any(other.contains(at) for other in answered):
            continue
        if any(place.contains(at) and not (cache and place == module.span(node)) for place in alone):
            continue
        by_all = waits_for_all(program, module.span(node))
        if by_all:
            answered.append(at)
        yield FileQuestion(at, cache, by_all)


def agreed_caches(program: Program) -> list[Span]:
    """The `if`s that read a file or make it, of which rank 0 says for all which: what one of them makes none reads."""
    asked = [question.at for question in file_questions(program) if question.cache and question.by_all]
    return [
        module.span(node)
        for module in program.modules
        for node in module.nodes
        if isinstance(node, ast.If) and any(module.span(node.test).contains(at) for at in asked)
    ]


def _asking(program: Program) -> Iterator[tuple[Module, ast.If, ast.Call]]:
    """Calls in the tests of `if` statements that rank 0 does not answer for all already."""
    for module in program.modules:
        for node in module.nodes:
            for call in ast.walk(node.test) if isinstance(node, ast.If) else ():
                if isinstance(node, ast.If) and isinstance(call, ast.Call) and not _is_settled(module, call):
                    yield module, node, call


def _is_made_before(program: Program, module: Module, node: ast.If, asked: str) -> bool:
    """True when each process has made the folder itself on its way to the test."""
    scope, start = module.scope_of.get(node, module.scope).name, module.span(node).start
    makers = [e for e in program.effects if e.path_text == asked and e.at.path == module.path]
    if asked.isidentifier() and asked not in module.scope.bindings:
        makers = [e for e in makers if e.scope == scope]
    return bool(makers) and all(e.kind == "folder" and e.scope == scope and e.at.end <= start for e in makers)


def _meets(program: Program, module: Module, node: ast.If) -> bool:
    """True when the processes agree on a value of the clock in a branch: whoever makes the file, all go there or none."""
    calls = (n for part in (*node.body, *node.orelse) for n in ast.walk(part) if isinstance(n, ast.Call))
    return any(_agrees(program, module, call, 0) for call in calls)


def _agrees(program: Program, module: Module, call: ast.Call, depth: int) -> bool:
    """True when a value of the clock is agreed on here, or in the function that is called."""
    at = module.span(call)
    if any(at.contains(clock.at) for clock in program.clocks if clock.into != "log"):
        return True
    callee = program.resolver.callee(module, call) if depth < _DEPTH else None
    if callee is None or not isinstance(callee[1], ast.FunctionDef):
        return False
    inner = [n for n in ast.walk(callee[1]) if isinstance(n, ast.Call)]
    return any(_agrees(program, callee[0], n, depth + 1) for n in inner)


def _is_settled(module: Module, call: ast.Call) -> bool:
    return any(isinstance(a, ast.Call) and dotted(a.func) == "from_rank_zero" for a in module.ancestors(call))
