"""Where a program starts and ends, and where its processes have to meet.

In: the `Code` of a program and its calls that wrap.  Out: its `Entry`.  The processes meet above the first statement that seeds, draws,
writes, asks the clock, uses a GPU, loads or wraps; parsing arguments, constants and imports may come before.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from migrator.facts.code import Code
from migrator.facts.effects.effects import classify
from migrator.facts.model import Entry, Place
from migrator.facts.processes.import_time import acting_import
from migrator.facts.python.nodes import FunctionNode
from migrator.facts.python.reach import is_main_guard
from migrator.facts.python.syntax import Module, Span
from migrator.facts.randomness.clock_values import clock_of
from migrator.facts.randomness.drawing_calls import draws_or_moves, draws_or_seeds, seeds
from migrator.facts.wraps.wrap_calls import WrapCalls

_SHARED = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader", "torch.cuda.device_count")
_PARSERS = ("argparse.", "optparse.")


def find_entry(code: Code, calls: WrapCalls) -> Entry:
    """Where the program starts and ends."""
    return _Meeting(code, calls).find()


def exit_status(code: Code, statement: Span) -> Place | None:
    """The argument of a `sys.exit(...)` statement, the statement itself when it has none, or None for another one."""
    module = code.module_at(statement)
    for node in module.nodes:
        if isinstance(node, ast.Expr) and module.span(node) == statement and isinstance(node.value, ast.Call):
            call = node.value
            if code.external(module, call) in ("sys.exit", "exit", "quit", "os._exit"):
                inner = call.args[0] if call.args and isinstance(call.args[0], ast.Call) else node
                return Place(module.span(inner), statement, module.segment(inner))
    return None


class _Meeting:
    """Looks for the first statement that needs the processes."""

    def __init__(self, code: Code, calls: WrapCalls):
        self.code, self.calls = code, calls
        self._acting: dict[ast.AST, bool] = {}
        self._sharing: dict[ast.AST, bool] = {}

    def find(self) -> Entry:
        """Where the program starts and ends."""
        module = self.code.entry_module
        for statement in reversed(module.tree.body):
            if is_main_guard(statement) and isinstance(statement, ast.If):
                first = next((s for s in statement.body if not _is_quiet(self.code, module, s)), statement.body[-1])
                first = _above_parser(self.code, module, statement.body, first)
                before = module.tree.body[: module.tree.body.index(statement)]
                early = next((s for s in before if self._is_early(module, s)), None)
                if early is not None:
                    first = self._below_imports(module, early)
                acting = acting_import(self.code)
                first = acting or first
                return Entry(
                    "guard" if not acting and (early is None or first is statement) else "early",
                    module.span(first),
                    module.span(statement.body[-1]),
                )
        executable = [s for s in module.tree.body if not _is_declaration(s)]
        loud = [s for s in executable if not _is_quiet(self.code, module, s)]
        if not loud:
            return Entry("library", None, None)
        first = acting_import(self.code) or self._below_imports(module, loud[0])
        return Entry("flat", module.span(first), module.span(module.tree.body[-1]))

    def _is_early(self, module: Module, statement: ast.stmt) -> bool:
        """A statement above the main guard that already seeds, draws, writes, asks the clock or uses a GPU."""
        if isinstance(statement, FunctionNode | ast.ClassDef | ast.Import | ast.ImportFrom) or is_main_guard(statement):
            return False
        return any(self._acts(module, node, 0) for node in ast.walk(statement) if isinstance(node, ast.Call))

    def _below_imports(self, module: Module, first: ast.stmt) -> ast.stmt:
        """The statement, or the one after the imports when it stands between them: names must be there before they are used.

        Imports below a statement that needs the processes are no longer at the top.
        """
        body, last = module.tree.body, -1
        for place, statement in enumerate(body):
            if isinstance(statement, FunctionNode | ast.ClassDef | ast.For | ast.While | ast.With):
                break
            if isinstance(statement, ast.Import | ast.ImportFrom):
                last = place
            elif place >= body.index(first) and self._needs_processes(module, statement):
                break
        return first if body.index(first) > last or last + 1 >= len(body) else body[last + 1]

    def _needs_processes(self, module: Module, statement: ast.stmt) -> bool:
        """A statement that loads, wraps, counts devices, or acts in another way than by a seed."""
        calls = [n for n in ast.walk(statement) if isinstance(n, ast.Call)]
        return any(
            self._shares(module, call, 0)
            or (self._acts(module, call, 0) and not seeds(self.code.external(module, call)))
            for call in calls
        )

    def _shares(self, module: Module, call: ast.Call, depth: int) -> bool:
        """A call that makes a loader or a wrapper, or counts the devices, itself or in the functions that it runs."""
        if call in self.calls.nodes or self.code.external(module, call) in _SHARED:
            return True
        return self._runs(module, call, depth, self._sharing, self._shares)

    def _acts(self, module: Module, call: ast.Call, depth: int) -> bool:
        if _acts_alone(module, call, self.code.external(module, call)):
            return True
        return self._runs(module, call, depth, self._acting, self._acts)

    def _runs(
        self,
        module: Module,
        call: ast.Call,
        depth: int,
        known: dict[ast.AST, bool],
        does: Callable[[Module, ast.Call, int], bool],
    ) -> bool:
        """True when a function of the project that the call runs has a call inside that `does` it."""
        callee = self.code.resolver.callee(module, call) if depth < 4 else None
        if callee is not None and isinstance(callee[1], ast.ClassDef):
            callee = self.code.resolver.method(callee[0], callee[1], "__init__")
        if callee is None:
            return False
        if callee[1] not in known:
            known[callee[1]] = False  # for functions that call themselves
            inner = (n for n in ast.walk(callee[1]) if isinstance(n, ast.Call))
            known[callee[1]] = any(does(callee[0], n, depth + 1) for n in inner)
        return known[callee[1]]


def _acts_alone(module: Module, call: ast.Call, name: str) -> bool:
    """True for a call that seeds, draws random numbers, uses a GPU, or has an effect that one process must have alone."""
    if draws_or_seeds(name) or draws_or_moves(call, name):
        return True
    effect = classify(module, call, name)
    if effect is not None and effect.kind not in ("folder", "path_mkdir"):
        return True
    seen = clock_of(module, call, name)
    return seen is not None and seen.into != "log"


def _is_quiet(code: Code, module: Module, statement: ast.stmt) -> bool:
    """Argument parsing, plain constants, and where to import from: they may come before the processes meet."""
    if isinstance(statement, ast.If) and _is_plain(statement.test):
        inside = [*statement.body, *statement.orelse]
        return all(isinstance(s, ast.Import | ast.ImportFrom) or _is_quiet(code, module, s) for s in inside)
    if isinstance(statement, ast.Assign | ast.Expr) and _is_plain(statement.value):
        return True
    if isinstance(statement, ast.Assign | ast.Expr):
        value = statement.value
        if isinstance(value, ast.Call):
            name = module.qualified(value.func) or ""
            if name.startswith(("matplotlib.use", "warnings.")):
                return True
            if name in ("os.path.join", "os.path.dirname", "os.path.abspath", "os.path.realpath"):
                return True
            if name in ("sys.path.append", "sys.path.insert"):
                return True
    return _parses(code, module, statement)


def _parses(code: Code, module: Module, statement: ast.stmt) -> bool:
    """A call of argparse, or of a parser that it made."""
    if not isinstance(statement, ast.Assign | ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    function = statement.value.func
    if (module.qualified(function) or "").startswith(_PARSERS):
        return True
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
        return False
    return any(v.kind == "call" and v.name.startswith(_PARSERS) for v in code.resolver.values(module, function.value))


def _above_parser(code: Code, module: Module, block: list[ast.stmt], first: ast.stmt) -> ast.stmt:
    """A place that is not between the lines which make a parser: above them, where the given one is."""
    lines = [place for place, statement in enumerate(block) if _parses(code, module, statement)]
    return block[lines[0]] if lines and lines[0] < block.index(first) < lines[-1] else first


def _is_declaration(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import | ast.ImportFrom | FunctionNode | ast.ClassDef):
        return True
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return True
    if isinstance(statement, ast.Try):
        return all(
            _is_declaration(s) or isinstance(s, ast.Pass)
            for s in [*statement.body, *(b for h in statement.handlers for b in h.body)]
        )
    if isinstance(statement, ast.If):
        return all(_is_declaration(s) for s in [*statement.body, *statement.orelse])
    return False


def _is_plain(node: ast.expr) -> bool:
    """Constants and displays of constants."""
    return not any(isinstance(n, ast.Call | ast.Attribute | ast.Subscript) for n in ast.walk(node))
