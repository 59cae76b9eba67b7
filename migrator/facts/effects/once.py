"""Which statements only write, so that one process can run them for all.

In: a `Program`.  Out: `OnceGroup`s of consecutive statements of one block that rank 0 alone may run: they write, they set no
name that is read elsewhere, they draw no random numbers, they call no wrapped model.  What writes and cannot stand alone
comes out as `Unguarded`, with the reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from migrator.facts.model import Effect
from migrator.facts.processes.uniform import BY_WORKERS, in_workers
from migrator.facts.program import Program
from migrator.facts.python.nodes import FunctionNode, dotted, names_in, walk
from migrator.facts.python.syntax import Module, Span

_GUARDED_KINDS = frozenset({"write", "remove", "shell", "open", "download", "folder"})
_NEEDED = frozenset({"shell", "remove", "download"})
_RANDOM = ("torch.rand", "torch.randn", "torch.randint", "torch.randperm", "numpy.random.", "random.")
_PURE_BUILTINS = frozenset(
    [
        "len",
        "str",
        "int",
        "float",
        "bool",
        "max",
        "min",
        "abs",
        "round",
        "isinstance",
        "hasattr",
        "getattr",
        "sorted",
        "range",
        "enumerate",
        "zip",
        "list",
        "dict",
        "tuple",
        "set",
        "sum",
        "format",
        "vars",
        "repr",
    ]
)


@dataclass(frozen=True, slots=True)
class OnceGroup:
    """Consecutive statements of one block that one process runs; `folder_or_file` is True when others may read the result."""

    statements: tuple[Span, ...]
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class Unguarded:
    """An effect whose statement does more than write."""

    effect: Effect
    reason: str


def once_groups(program: Program, kinds: frozenset[str] = _GUARDED_KINDS) -> tuple[list[OnceGroup], list[Unguarded]]:
    """Group the program's writing statements; what cannot be grouped is given back with the reason."""
    by_statement: dict[ast.stmt, list[Effect]] = {}
    reasons: list[Unguarded] = []
    finder = _Finder(program, kinds)
    for module, call, effect in finder.effect_calls():
        top, reason = finder.guardable(module, call)
        if effect.kind in _NEEDED and in_workers(program, module, call):
            top, reason = None, BY_WORKERS  # each needs what comes of it, at once
        if top is None:
            reasons.append(Unguarded(effect, reason))
        else:
            by_statement.setdefault(top, []).append(effect)
    groups: list[OnceGroup] = []
    done: set[ast.stmt] = set()
    for statement in by_statement:
        if statement in done:
            continue
        module = finder.module_of[statement]
        block = module.block(statement)
        run = [statement]
        position = block.index(statement) + 1
        while position < len(block) and block[position] in by_statement and block[position] not in done:
            run.append(block[position])
            position += 1
        done.update(run)
        spans = tuple(module.span(s) for s in run)
        groups.append(OnceGroup(spans, tuple(e for s in run for e in by_statement[s])))
    return groups, reasons


class _Finder:
    def __init__(self, program: Program, kinds: frozenset[str]):
        self.program, self.kinds = program, kinds
        self.module_of: dict[ast.stmt, Module] = {}
        self._effects = {(e.at.path, e.at.start, e.at.end): e for e in program.effects if e.kind in kinds}

    def effect_calls(self) -> Iterator[tuple[Module, ast.Call, Effect]]:
        for module, call in self.program.calls():
            span = module.span(call)
            effect = self._effects.get((span.path, span.start, span.end))
            if effect is not None:
                yield module, call, effect

    def effect_of(self, module: Module, node: ast.AST) -> Effect | None:
        if not isinstance(node, ast.Call):
            return None
        span = module.span(node)
        return self._effects.get((span.path, span.start, span.end))

    def guardable(self, module: Module, call: ast.Call) -> tuple[ast.stmt | None, str]:
        """The outermost statement around the call that only writes, or the reason why there is none."""
        statement = module.statement(call)
        best: ast.stmt | None = None
        reason = ""
        current: ast.AST = statement
        while isinstance(current, ast.stmt) and not isinstance(current, FunctionNode | ast.ClassDef):
            why = self._why_not(module, current, frozenset())
            if why:
                reason = reason or why
                break
            best = current
            parent = module.parents.get(current)
            if isinstance(parent, ast.If) and (_is_main(parent) or current in parent.orelse or parent.orelse):
                break
            if not isinstance(parent, ast.With | ast.If | ast.For) and not (
                isinstance(parent, ast.Try) and current in parent.body
            ):
                break
            current = parent
        if best is not None:
            self.module_of[best] = module
        return best, reason

    def _why_not(self, module: Module, statement: ast.stmt, handles: frozenset[str]) -> str:
        if isinstance(statement, ast.Expr):
            return self._why_not_call(module, statement.value, handles)
        if isinstance(statement, ast.With):
            names = {
                n for item in statement.items if item.optional_vars is not None for n in names_in(item.optional_vars)
            }
            for item in statement.items:
                if self.effect_of(module, item.context_expr) is None:
                    return "it opens something else than a file to write"
                why = self._impure(module, item.context_expr)
                if why:
                    return why
            return next((w for s in statement.body if (w := self._why_not(module, s, handles | names))), "")
        if isinstance(statement, ast.If) and not statement.orelse:
            why = self._impure(module, statement.test)
            return why or next((w for s in statement.body if (w := self._why_not(module, s, handles))), "")
        if isinstance(statement, ast.For) and not statement.orelse:
            why = self._impure(module, statement.iter)
            return why or next((w for s in statement.body if (w := self._why_not(module, s, handles))), "")
        if isinstance(statement, ast.Try):
            parts = [*statement.body, *(s for h in statement.handlers for s in h.body), *statement.orelse]
            return next((w for s in [*parts, *statement.finalbody] if (w := self._why_not(module, s, handles))), "")
        if isinstance(statement, ast.Pass):
            return ""
        if isinstance(statement, ast.Return) and statement.value is not None and self._is_unused(module, statement):
            return self._why_not_call(module, statement.value, handles)
        if isinstance(statement, ast.Assign):
            return "its statement sets a name that is used later"
        return f"it is part of a {type(statement).__name__.lower()} statement"

    def _is_unused(self, module: Module, leave: ast.Return) -> bool:
        """True for the last statement of a function that no caller takes anything from."""
        function = module.parents.get(leave)
        if not isinstance(function, ast.FunctionDef) or function.body[-1] is not leave:
            return False
        sites = self.program.resolver.call_sites(function)
        return bool(sites) and all(isinstance(owner.parents.get(site), ast.Expr) for owner, site in sites)

    def _why_not_call(self, module: Module, value: ast.expr, handles: frozenset[str]) -> str:
        if isinstance(value, ast.Constant):
            return ""
        if not isinstance(value, ast.Call):
            return "its statement does more than write"
        name = dotted(value.func) or ""
        writes = self.effect_of(module, value) is not None
        uses_handle = bool(handles & names_in(value)) and not isinstance(value.func, ast.Name)
        if not (writes or uses_handle or name == "print"):
            inner = [n for n in walk(value) if self.effect_of(module, n) is not None]
            if not inner or (isinstance(value.func, ast.Attribute) and not isinstance(value.func.value, ast.Call)):
                return "its statement does more than write"
        return self._impure(module, value)

    def _impure(self, module: Module, expression: ast.AST) -> str:
        """Why evaluating the expression on one rank only could matter elsewhere."""
        for node in walk(expression):
            if not isinstance(node, ast.Call):
                continue
            name = self.program.external(module, node)
            if name.startswith(_RANDOM) and not name.startswith("random.Random"):
                return "it draws random numbers, which all processes must draw alike"
            if self.program.is_wrapped(module, node.func):
                return "it runs the wrapped model, which all processes must run together"
            callee = self.program.resolver.callee(module, node)
            if callee is not None and self._runs_model(callee[0], callee[1], 0):
                return "it calls a function that runs the wrapped model"
            if callee is not None and self._meets(callee[1], 0):
                return "it calls a function in which the processes wait for each other"
        return ""

    def _meets(self, function: ast.AST, depth: int) -> bool:
        """True when a function of the project makes all processes agree on a name, or wait for a removal."""
        owner = next((m for m, n in self.program.resolver.definitions.values() if n is function), None)
        if owner is None or isinstance(function, ast.ClassDef) or depth > 4:
            return False
        place = owner.span(function)
        together = [c.at for c in self.program.clocks if c.into in ("name", "seed")]
        if self._only_names(function):
            together = []
        together += [e.at for e in self.program.effects if e.kind in ("remove", "shell", "download", "prompt")]
        if any(place.contains(at) for at in together):
            return True
        callees = [self.program.resolver.callee(owner, n) for n in walk(function) if isinstance(n, ast.Call)]
        return any(c is not None and c[1] is not function and self._meets(c[1], depth + 1) for c in callees)

    def _only_names(self, function: ast.AST) -> bool:
        """True when all that a function gives back goes into what one process writes, or into the name of it."""
        sites = self.program.resolver.call_sites(function)
        return bool(sites) and all(
            any(self.effect_of(module, a) is not None for a in module.ancestors(site) if isinstance(a, ast.Call))
            and isinstance(module.statement(site), ast.Expr)
            for module, site in sites
        )

    def _runs_model(self, module: Module, function: ast.AST, depth: int) -> bool:
        if depth > 4 or isinstance(function, ast.ClassDef):
            return False
        for node in walk(function):
            if isinstance(node, ast.Call):
                if self.program.is_wrapped(module, node.func):
                    return True
                callee = self.program.resolver.callee(module, node)
                if (
                    callee is not None
                    and callee[1] is not function
                    and self._runs_model(callee[0], callee[1], depth + 1)
                ):
                    return True
        return False


def _is_main(node: ast.If) -> bool:
    return "__name__" in names_in(node.test)
