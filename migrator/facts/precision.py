"""Where a program already chooses its precision: autocast, gradient scalers, apex.

In: a `Program`.  Out: the calls, with what is needed to change them in place.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from migrator.facts.model import Place
from migrator.facts.program import Program
from migrator.facts.syntax import Module, Span, argument

OLD_NAMES = frozenset(
    {
        "torch.cuda.amp.autocast",
        "torch.cuda.amp.GradScaler",
        "torch.cuda.amp.autocast_mode.autocast",
        "torch.cuda.amp.grad_scaler.GradScaler",
    }
)
_NEW_NAMES = frozenset(
    {"torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast", "torch.amp.GradScaler"}
)


@dataclass(frozen=True, slots=True)
class PrecisionCall:
    """A call that makes an autocast context or a scaler: kind is autocast or GradScaler; `is_name` for a bare name."""

    at: Span
    statement: Span
    function: Span
    name: str
    kind: str
    is_name: bool
    positional: bool
    enabled: str


def precision_calls(program: Program) -> list[PrecisionCall]:
    """All autocast contexts and scalers that the program makes."""
    found = []
    for module, call in program.calls():
        name = program.external(module, call)
        if name in OLD_NAMES or name in _NEW_NAMES:
            enabled = argument(call, "enabled", None)
            found.append(
                PrecisionCall(
                    module.span(call),
                    module.span(module.statement(call)),
                    module.span(call.func),
                    name,
                    "GradScaler" if name.endswith("GradScaler") else "autocast",
                    isinstance(call.func, ast.Name),
                    bool(call.args) and name in OLD_NAMES,
                    module.segment(enabled) if enabled is not None else "",
                )
            )
    return found


def old_imports(program: Program) -> list[tuple[Span, str]]:
    """Plain top-level imports of the old names, with today's spelling; where every use can follow."""
    awkward = {c.at.path for c in precision_calls(program) if c.positional and c.is_name}
    found = []
    for module in program.modules:
        for statement in module.tree.body:
            if not isinstance(statement, ast.ImportFrom) or module.path in awkward:
                continue
            if module.absolute(statement.module or "", statement.level) != "torch.cuda.amp":
                continue
            if {a.name for a in statement.names} <= {"autocast", "GradScaler"} and _only_called(module, statement):
                names = ", ".join(f"{a.name} as {a.asname}" if a.asname else a.name for a in statement.names)
                found.append((module.span(statement), f"from torch.amp import {names}"))
    return found


def _only_called(module: Module, statement: ast.ImportFrom) -> bool:
    """True when each use of the imported names is a call of them."""
    names = {a.asname or a.name for a in statement.names}
    for node in module.nodes:
        if isinstance(node, ast.Name) and node.id in names:
            parent = module.parents.get(node)
            if not (isinstance(parent, ast.Call) and parent.func is node):
                return False
    return True


def apex_uses(program: Program) -> list[Place]:
    """Calls of `apex.amp`; the note is the function's name."""
    found = []
    for module, call in program.calls():
        name = program.external(module, call)
        if name.startswith("apex.amp."):
            place = Place(
                module.span(call), module.span(module.statement(call)), module.segment(call), name.rpartition(".")[2]
            )
            found.append(place)
    return found
