"""Where a program already chooses its precision: autocast, gradient scalers, apex.

In: a `Program`.  Out: the calls, with what is needed to change them in place.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from migrator.facts.program import Program
from migrator.facts.python.nodes import argument
from migrator.facts.python.reach import is_main_guard
from migrator.facts.python.syntax import Module, Span

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


@dataclass(frozen=True, slots=True)
class ApexUse:
    """A call of `apex.amp`; `kind` is its function, `argument` the place of its first argument; `odd` says why it cannot go."""

    at: Span
    statement: Span
    kind: str
    argument: Span | None
    odd: str


def apex_uses(program: Program) -> list[ApexUse]:
    """All calls of `apex.amp`."""
    found = []
    for module, call in program.calls():
        name = program.external(module, call)
        if name.startswith("apex.amp."):
            statement, kind = module.statement(call), name.rpartition(".")[2]
            first = module.span(call.args[0]) if call.args else None
            odd = _why_not(module, call, statement, kind)
            found.append(ApexUse(module.span(call), module.span(statement), kind, first, odd))
    return found


def apex_level(program: Program) -> tuple[str, str]:
    """The `opt_level` of `amp.initialize` (apex's default is O1), and the test under which apex is used.

    The level is the empty text where it is not written there, or where there are several.
    """
    levels, tests = set(), []
    for module, call in program.calls():
        if program.external(module, call) not in ("apex.amp.initialize", "apex.amp.scale_loss"):
            continue
        for ancestor in module.ancestors(call):
            if isinstance(ancestor, ast.If) and not is_main_guard(ancestor):
                tests.append(module.segment(ancestor.test))
        if program.external(module, call) == "apex.amp.initialize":
            level = argument(call, "opt_level", 3)
            constant = level.value if isinstance(level, ast.Constant) else None
            levels.add("O1" if level is None else constant if isinstance(constant, str) else "")
    return (levels.pop() if len(levels) == 1 else ""), (tests[0] if tests else "")


def _why_not(module: Module, call: ast.Call, statement: ast.stmt, kind: str) -> str:
    """Why a call of apex cannot simply go, or the empty text."""
    if kind == "initialize":
        targets = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        names = targets.elts if isinstance(targets, ast.Tuple) else [targets] if targets is not None else []
        given = [module.segment(a) for a in [*call.args, *(k.value for k in call.keywords if k.arg == "optimizers")]]
        return "" if [module.segment(n) for n in names] == given[: len(names)] and names else "it gives new names"
    if kind == "scale_loss":
        alone = isinstance(statement, ast.With) and len(statement.items) == 1 and len(statement.body) == 1
        body = statement.body[0] if isinstance(statement, ast.With) else None
        backward = isinstance(body, ast.Expr) and module.segment(body).endswith(".backward()")
        return "" if alone and backward else "more than the backward pass stands under it"
    return "" if kind == "master_params" and call.args else f"{kind} has no equal in torch"


def apex_imports(program: Program) -> list[Span]:
    """Plain top-level `from apex import amp` statements."""
    return [
        module.span(statement)
        for module in program.modules
        for statement in module.tree.body
        if isinstance(statement, ast.ImportFrom)
        and statement.module == "apex"
        and [alias.name for alias in statement.names] == ["amp"]
    ]
