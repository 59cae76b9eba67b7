"""The code of a program: its modules, what their calls run, and what stands where.

In: a `Project`.  Out: a `Code`, on which the facts are built.  Nothing is mutated after construction, and every list is in source
order, entry module first.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from migrator.facts.model import Place
from migrator.facts.processes.converted import is_helpers
from migrator.facts.python.neighbours import used_by_others
from migrator.facts.python.reach import is_main_guard, other_programs, unreached
from migrator.facts.python.resolve import Resolver
from migrator.facts.python.syntax import Module, Span
from migrator.facts.python.values import Told
from migrator.load.project import Project


class Code:
    """All modules of a program, with who is who in them."""

    def __init__(self, project: Project, told: Told | None = None):
        self.project = project
        self.modules = [m for m in project.modules.values() if m is project.entry or not is_helpers(m)]
        self.entry_module = project.entry
        self.resolver = Resolver(project.modules, told)
        self._external: dict[ast.Call, str] = {}
        self._by_path = {module.path: module for module in self.modules}

    # ---------------------------------------------------------------- places
    def module_at(self, span: Span) -> Module:
        return self._by_path[span.path]

    def text(self, span: Span) -> str:
        return self.module_at(span).text[span.start : span.end]

    def place(self, module: Module, node: ast.AST, note: str = "") -> Place:
        """The fact that something stands here."""
        return Place(module.span(node), module.span(module.statement(node)), module.segment(node), note)

    # ---------------------------------------------------------------- calls
    def calls(self) -> Iterator[tuple[Module, ast.Call]]:
        """All calls that the program can make, in source order."""
        return iter(self._calls)

    @cached_property
    def _calls(self) -> list[tuple[Module, ast.Call]]:
        return [
            (module, node)
            for module in self.modules
            for node in module.nodes
            if isinstance(node, ast.Call) and not self.is_other_main(module, node)
        ]

    def external(self, module: Module, call: ast.Call) -> str:
        """Library name of what a call runs, or the empty text when it is the project's own or unknown."""
        name = self._external.get(call)
        if name is None:
            own = self.resolver.definition(module.qualified(call.func), module) is not None
            name = self._external[call] = "" if own else self.resolver.external_name(module, call.func) or ""
        return name

    # ---------------------------------------------------------------- which program runs a place
    def is_other_main(self, module: Module, node: ast.AST) -> bool:
        """Code under another module's `__main__` guard, or that only it calls, never runs in this program."""
        return module is not self.entry_module and any(
            a in self._other_programs or is_main_guard(a) for a in module.ancestors(node)
        )

    @cached_property
    def _other_programs(self) -> frozenset[ast.AST]:
        return other_programs(self.modules, self.entry_module)

    def is_unreached(self, module: Module, node: ast.AST) -> bool:
        """True inside of a definition that nothing in the program leads to."""
        return bool(self._unreached) and any(a in self._unreached for a in (node, *module.ancestors(node)))

    @cached_property
    def _unreached(self) -> frozenset[ast.AST]:
        return unreached(self.modules, self.entry_module)

    def is_shared(self, at: Span) -> bool:
        """True when the place may be run without a process group: by another program of the project, or on import."""
        if at.path == self.entry_module.path:
            return False
        if at.path in self._shared:
            return True
        module = self.module_at(at)
        return not any(
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and module.span(node).contains(at)
            for node in module.nodes
        )

    @cached_property
    def _shared(self) -> frozenset[str]:
        return used_by_others(self.project.modules, self.project.root, self.entry_module)
