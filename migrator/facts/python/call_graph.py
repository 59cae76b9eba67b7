"""What calls run, and which calls run a function.

In: a `Resolver`.  Out: the project's function, method or class of a call, and the call sites of a function; also through callbacks,
tables, partial functions and decorators, as far as they are in sight.
"""

from __future__ import annotations

import ast

from migrator.facts.python import chosen
from migrator.facts.python.answers import Answers
from migrator.facts.python.definitions import is_abstract
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module
from migrator.facts.python.values import Value


class CallGraph:
    """Calls and what they run."""

    def __init__(self, resolver: Answers):
        self.resolver = resolver
        self.partials: dict[ast.AST, list[tuple[Module, ast.Call]]] = {}  # partial(function, ...)
        self.decorated: dict[ast.AST, list[tuple[Module, ast.AST]]] = {}  # what a decorator is given
        self._call_sites: dict[ast.AST, list[tuple[Module, ast.Call]]] | None = None
        # calls of such a partial, or of a table's entry
        self._through: dict[ast.AST, list[tuple[Module, ast.AST]]] = {}

    # ---------------------------------------------------------------- what a call runs
    def callee(self, module: Module, call: ast.Call) -> tuple[Module, ast.AST] | None:
        """The project's function, method or class that a call runs."""
        func = call.func
        direct = self.resolver.definition(module.qualified(func), module)
        if direct is not None:
            return direct
        if isinstance(func, ast.Attribute):
            if func.attr not in self.resolver.methods:
                return self._held(module, func)
            scope = module.scope_of.get(func, module.scope)
            if isinstance(func.value, ast.Name) and func.value.id == scope.self_name and scope.owner_class is not None:
                cls = scope.owner_class.node
                if isinstance(cls, ast.ClassDef):
                    own = self.resolver.method(module, cls, func.attr)
                    if own is not None and not is_abstract(own[1]):
                        return own
                    found = next(self.resolver.overrides(module, cls, func.attr), own)
                    if found is not None:
                        return found
            if (
                isinstance(func.value, ast.Call)
                and dotted(func.value.func) == "super"
                and scope.owner_class is not None
            ):
                cls = scope.owner_class.node
                if isinstance(cls, ast.ClassDef):
                    for owner, base in list(self.resolver.bases(module, cls))[1:]:
                        found = self.resolver.method(owner, base, func.attr)
                        if found is not None:
                            return found
            for value in self.resolver.values(module, func.value):
                if value.kind == "instance" and isinstance(value.node, ast.Call) and value.module is not None:
                    cls_found = self.resolver.definition(value.module.qualified(value.node.func), value.module)
                    if cls_found is not None and isinstance(cls_found[1], ast.ClassDef):
                        found = self.resolver.method(cls_found[0], cls_found[1], func.attr)
                        if found is not None:
                            return found
        elif isinstance(func, ast.Name):
            for value in self.resolver.values(module, func):
                if value.kind in ("function", "class") and value.module is not None and value.node is not None:
                    return value.module, value.node
        return self._called_object(module, func) if "__call__" in self.resolver.methods else None

    def _called_object(self, module: Module, func: ast.AST) -> tuple[Module, ast.AST] | None:
        """The `__call__` of an object of the project's: `stopper = EarlyStopping()` and then `stopper(loss, model)`."""
        for value in self.resolver.values(module, func):
            if value.kind == "instance" and isinstance(value.node, ast.Call) and value.module is not None:
                cls = self.resolver.definition(value.module.qualified(value.node.func), value.module)
                if cls is not None and isinstance(cls[1], ast.ClassDef):
                    return self.resolver.method(cls[0], cls[1], "__call__")
        return None

    def _held(self, module: Module, func: ast.Attribute) -> tuple[Module, ast.AST] | None:
        """The function that an attribute holds: `self.step = step` and then `self.step(batch)`."""
        if func.attr not in self.resolver.attribute_writes:
            return None
        held = {(v.module, v.node) for v in self.resolver.values(module, func) if v.kind == "function"}
        only = next(iter(held)) if len(held) == 1 else (None, None)
        return (only[0], only[1]) if only[0] is not None and only[1] is not None else None

    def class_of(self, value: Value) -> tuple[Module, ast.ClassDef] | None:
        """The project's class of an instance."""
        if value.kind != "instance" or not isinstance(value.node, ast.Call) or value.module is None:
            return None
        found = self.callee(value.module, value.node)
        return (found[0], found[1]) if found is not None and isinstance(found[1], ast.ClassDef) else None

    # ---------------------------------------------------------------- what runs a function
    def call_sites(self, function: ast.AST) -> list[tuple[Module, ast.Call]]:
        """All calls in the program that run this function (a class's call sites are its `__init__`'s)."""
        if self._call_sites is None:
            self._call_sites = {}
            with self.resolver.apart():  # who asks first may be in the middle of another question
                self._find_sites()
        return self._call_sites.get(function, [])

    def _find_sites(self) -> None:
        missed = [one for one in self._calls() if not self._add_site(*one)]
        for decorator, given in chosen.decorations(self.resolver):
            self.decorated.setdefault(decorator, []).append(given)
        self.resolver.forget()
        for module, call in missed:  # callbacks and entries of tables, now that it is known what is handed on
            if not self._add_site(module, call):
                self._add_chosen(module, call)
        self.resolver.forget()

    def _add_site(self, module: Module, call: ast.Call) -> bool:
        assert self._call_sites is not None
        found = self.callee(module, call)
        if found is None:
            return False
        target = found[1]
        if isinstance(target, ast.ClassDef):
            init = self.resolver.method(found[0], target, "__init__")
            if init is not None:
                self._call_sites.setdefault(init[1], []).append((module, call))
        self._call_sites.setdefault(target, []).append((module, call))
        scope = module.scope_of.get(call, module.scope)
        owner = scope.owner_class.node if scope.owner_class is not None else None
        if isinstance(owner, ast.ClassDef) and isinstance(call.func, ast.Attribute):
            if isinstance(call.func.value, ast.Name) and call.func.value.id == scope.self_name:  # or a subclass's own
                for _, other in self.resolver.overrides(module, owner, call.func.attr):
                    if other is not target:
                        self._call_sites.setdefault(other, []).append((module, call))
        return True

    def _add_chosen(self, module: Module, call: ast.Call) -> None:
        """A call of something that is chosen by name, or of a partial function; and the making of a partial."""
        assert self._call_sites is not None
        inner = chosen.partial_of(module, call)
        if inner is not None:
            for value in self.resolver.values(module, inner):
                if value.kind == "function" and value.node is not None:
                    self.partials.setdefault(value.node, []).append((module, call))
            return
        if isinstance(call.func, ast.Subscript | ast.Call | ast.Name):
            for value in chosen.candidates(self.resolver, module, call.func):
                if value.kind in ("function", "class") and value.node is not None and value.module is not None:
                    target: ast.AST = value.node
                    if isinstance(target, ast.ClassDef):
                        init = self.resolver.method(value.module, target, "__init__")
                        target = init[1] if init is not None else target
                    self._call_sites.setdefault(target, []).append((module, call))
        if isinstance(call.func, ast.Name | ast.Attribute) and self._may_hold_function(call.func):
            for value in self.resolver.values(module, call.func):
                made = chosen.partial_of(value.module, value.node) if value.module is not None else None
                if made is not None and value.module is not None:
                    for function in self.resolver.values(value.module, made):
                        if function.kind == "function" and function.node is not None:
                            self._through.setdefault(function.node, []).append((module, call))

    def _may_hold_function(self, func: ast.Name | ast.Attribute) -> bool:
        return isinstance(func, ast.Name) or func.attr in self.resolver.attribute_writes

    def uses_of(self, function: ast.AST) -> list[tuple[Module, ast.AST]]:
        """Where a function is run: its calls, and where it is only named, as a callback is (`Engine(step)`, `partial(step)`)."""
        sites: list[tuple[Module, ast.AST]] = [*self.call_sites(function), *self._through.get(function, ())]
        if sites:
            return sites
        name = getattr(function, "name", None)
        for module in self.resolver.modules.values():
            for node in module.nodes:
                if function is node and isinstance(node, ast.Lambda):
                    sites.append((module, module.parents[node]))
                elif isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
                    if any(value.node is function for value in self.resolver.values(module, node)):
                        sites.append((module, node))
        return sites

    def _calls(self) -> list[tuple[Module, ast.Call]]:
        modules = self.resolver.modules.values()
        return [(module, node) for module in modules for node in module.nodes if isinstance(node, ast.Call)]
