"""Statements that end the program before its last statement is done, so that nothing after that statement is run.

In: a `Program`.  Out: places before or after which the process group has to be left.  An exit that reports a failure is none:
there torchrun ends the other processes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from migrator.facts.program import Program
from migrator.facts.python.nodes import FunctionNode, dotted
from migrator.facts.python.syntax import Module, Span

_EXITS = frozenset({"sys.exit", "exit", "quit"})
# Runners that end the program when the function that they run is done.
_RUNNERS = frozenset({"absl.app.run", "typer.run", "tensorflow.app.run", "tensorflow.compat.v1.app.run"})
_COMMANDS = frozenset({"command", "click.command", "click.group"})
_LATE = frozenset({"write", "open", "remove", "shell", "folder", "path_mkdir", "prompt"})
_DEPTH = 3


@dataclass(frozen=True, slots=True)
class Ending:
    """A statement; the group is left before it, or after it where `falls` (a runner's function ends with it).

    `joined` is False where the statement may be run before the processes have met.
    """

    statement: Span
    falls: bool
    joined: bool


def endings(program: Program) -> list[Ending]:
    """Every place at which the program ends well, other than at its last statement; in source order."""
    found = [*_exits(program), *_ends_of_runner(program)]
    return sorted(found, key=lambda e: (e.statement.path, e.statement.start))


def _exits(program: Program) -> Iterator[Ending]:
    last = program.entry.last
    for module, call in program.calls():
        if program.external(module, call) not in _EXITS or _fails(call):
            continue
        statement = module.statement(call)
        span = module.span(statement)
        if not isinstance(statement, ast.Expr) or statement.value is not call or span == last:
            continue
        if any(isinstance(a, ast.ExceptHandler) for a in module.ancestors(call)):
            continue
        joined = _is_joined(program, module, call, 0)
        if joined is not None:
            yield Ending(span, False, joined)


def _fails(call: ast.Call) -> bool:
    """True for a status that says so, and for one that a call has yet to give (which may be the whole work)."""
    if not call.args:
        return False
    status = call.args[0]
    if isinstance(status, ast.Constant):
        return bool(status.value)
    return any(isinstance(n, ast.Call | ast.JoinedStr | ast.BinOp) for n in ast.walk(status))


def _is_joined(program: Program, module: Module, node: ast.AST, depth: int) -> bool | None:
    """Whether the processes have met when the node is run; None where that is so at no time."""
    first = program.entry.first
    function = next((a for a in module.ancestors(node) if isinstance(a, FunctionNode)), None)
    if function is None:
        if module is not program.entry_module or first is None or module.span(node).start < first.start:
            return None
        return True
    calls = program.resolver.call_sites(function) if depth < _DEPTH else []
    if not calls:
        return False
    return all(_is_joined(program, m, c, depth + 1) for m, c in calls)


def _ends_of_runner(program: Program) -> Iterator[Ending]:
    """Where the function ends that the program's last statement runs, if that never comes back."""
    found = _run_function(program)
    if found is None:
        return
    module, function = found
    if isinstance(function.body[-1], ast.Expr | ast.Assign | ast.If | ast.For | ast.With | ast.AugAssign | ast.While):
        yield Ending(module.span(function.body[-1]), True, True)
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and not any(isinstance(n, ast.Call) for n in ast.walk(node)):
            if next(a for a in module.ancestors(node) if isinstance(a, FunctionNode)) is function:
                yield Ending(module.span(node), False, True)


def _run_function(program: Program) -> tuple[Module, ast.FunctionDef] | None:
    last, module = program.entry.last, program.entry_module
    statement = next((n for n in module.nodes if isinstance(n, ast.Expr) and module.span(n) == last), None)
    if statement is None or not isinstance(statement.value, ast.Call):
        return None
    call = statement.value
    if program.external(module, call) in _RUNNERS:
        name = dotted(call.args[0]) if call.args else "main"
        found = program.resolver.definition(name, module) if name else None
    else:
        found = program.resolver.callee(module, call)
        if found is None or not any(_is_command(found[0], d) for d in getattr(found[1], "decorator_list", ())):
            return None
    return (found[0], found[1]) if found is not None and isinstance(found[1], ast.FunctionDef) else None


def _is_command(module: Module, decorator: ast.expr) -> bool:
    """True for click's decorators, which make the function end the program."""
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (module.qualified(node) or "") in _COMMANDS


def late_effects(program: Program) -> Iterator[Span]:
    """`atexit.register(f)` calls of functions that write: they are run when the group has been left, and know no rank."""
    written = [e.at for e in program.effects if e.kind in _LATE]
    for module, call in program.calls():
        if program.external(module, call) != "atexit.register" or not call.args:
            continue
        places = [module.span(call)]
        for value in program.resolver.values(module, call.args[0]):
            if value.kind == "function" and value.module is not None and value.node is not None:
                places.append(value.module.span(value.node))
        if any(place.contains(at) for place in places for at in written):
            yield module.span(call)
