"""Where the processes go through a function one after another, because it prepares files.

In: a `Program` and a statement that fetches or makes something, which not all processes come to: a test for the file, or an early
return, stands before it.  Out: the statements, or the tests around them, that call its function: rank 0 goes through them first, and
the others find everything there.  None where the processes meet in the function, or where a call may be passed by.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrator.facts.effects.once import OnceGroup
from migrator.facts.loaders.downloads import fetching_groups
from migrator.facts.processes.uniform import missing_file_test, passed_by, waits_for_all
from migrator.facts.program import Program
from migrator.facts.python.syntax import Module, Span

_DEPTH = 3


def fetching_places(program: Program) -> Iterator[tuple[Span, tuple[Span, ...]]]:
    """Statements that fetch, with what rank 0 goes through first for them: nothing where processes may fetch at the same moment."""
    for module, group in fetching_groups(program):
        at = module.span(group[0])
        missing = missing_file_test(program, at)
        if waits_for_all(program, at):
            yield at, tuple(module.span(statement) for statement in group)
        elif missing is not None:
            yield at, (missing,)  # then all processes look, one after the other
        else:
            places = called_in_turn(program, at)
            yield from ((at, (place,)) for place in places or ())
            if places is None:
                yield at, ()


def fetched_in_turn(program: Program, group: OnceGroup) -> list[Span] | None:
    """The same for what a group of statements fetches or unpacks."""
    if not any(effect.kind == "download" for effect in group.effects):
        return None
    return called_in_turn(program, group.statements[0])


def called_in_turn(program: Program, statement: Span, depth: int = 0) -> list[Span] | None:
    """The places to go through in turn, one for each call of the function around the statement."""
    module = program.module_at(statement)
    node = module.statement_at(statement)
    if node is None or "files" not in passed_by(program, module, node):
        return None
    function = module.enclosing_function(node)
    sites = program.resolver.call_sites(function) if function is not None else []
    if depth == _DEPTH or not sites or function is None or _meets(program, module, function):
        return None
    places: list[Span] = []
    for caller, call in sites:
        calling = caller.statement(call)
        at = caller.span(calling)
        missing = missing_file_test(program, at)
        if waits_for_all(program, at) and isinstance(calling, ast.Expr):
            places.append(at)
        elif missing is not None:
            places.append(missing)
        else:
            further = called_in_turn(program, at, depth + 1)
            if further is None:
                return None
            places += further
    return list(dict.fromkeys(places))


def _meets(program: Program, module: Module, function: ast.AST) -> bool:
    """True when the processes agree on something in the function, or run the model together."""
    place = module.span(function)
    if any(place.contains(clock.at) for clock in program.clocks if clock.into != "log"):
        return True
    if any(place.contains(effect.at) for effect in program.effects if effect.kind == "prompt"):
        return True
    calls = [n for n in ast.walk(function) if isinstance(n, ast.Call)]
    return any(program.is_wrapped(module, call.func) for call in calls)
