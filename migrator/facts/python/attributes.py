"""What attributes of objects and modules hold.

In: a `Resolver`.  Out: the values of an attribute, by what is written to it on the same object anywhere in the program.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrator.facts.python import chosen
from migrator.facts.python.answers import Answers, Write
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module
from migrator.facts.python.values import Value, definition_value


class Attributes:
    """All attributes that a program writes."""

    def __init__(self, resolver: Answers):
        self.resolver = resolver
        self.written: dict[str, list[Write]] = {}
        for module in resolver.modules.values():
            for node in module.nodes:
                self._index(module, node)

    def _index(self, module: Module, node: ast.AST) -> None:
        if isinstance(node, ast.Call):
            self._index_registered(module, node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._index_write(module, target, node.value, ())
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            self._index_write(module, node.target, node.value, ())
        elif isinstance(node, ast.For):
            self._index_write(module, node.target, None, ())

    def _index_registered(self, module: Module, call: ast.Call) -> None:
        """`self.add_module("name", layer)` sets an attribute."""
        func, given = call.func, [*call.args, *(keyword.value for keyword in call.keywords)]
        if isinstance(func, ast.Attribute) and func.attr in ("add_module", "register_module") and len(given) == 2:
            name = given[0].value if isinstance(given[0], ast.Constant) else None
            if isinstance(name, str):
                target = ast.copy_location(ast.Attribute(func.value, name, ast.Store()), call)
                self._index_write(module, target, given[1], ())

    def _index_write(self, module: Module, target: ast.AST, value: ast.AST | None, path: tuple[int, ...]) -> None:
        if isinstance(target, ast.Attribute):
            self.written.setdefault(target.attr, []).append((module, target, value, path))
        elif isinstance(target, ast.Tuple | ast.List):
            for position, element in enumerate(target.elts):
                if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
                    self._index_write(module, element, value.elts[position], ())
                else:
                    self._index_write(module, element, value, (*path, position))

    def values(self, module: Module, node: ast.Attribute) -> Iterator[Value]:
        qualified = module.qualified(node)
        definition = self.resolver.definition(qualified, module)
        if definition is not None:
            yield definition_value(definition)
            return
        if node.attr == "module":
            yield from self.resolver.values(module, node.value)  # still the same network
            return
        base_name = dotted(node.value)
        if base_name is not None:
            imported = self.resolver.find_module(module.qualified(node.value) or "", module)
            if imported is not None and node.attr in imported.scope.bindings:
                for binding in imported.scope.bindings[node.attr]:
                    yield from self.resolver.bound(imported, imported.scope, binding)
                return
        writes = list(self.writes(module, node))
        for owner, _, value, path in writes:
            if value is not None:
                yield from self.resolver.unpack(owner, value, path)
        if writes:
            return
        owners = self.resolver.values(module, node.value)
        named = [(v.module, f[node.attr]) for v in owners if v.module and node.attr in (f := chosen.named_fields(v))]
        for named_module, given in named:
            yield from self.resolver.values(named_module, given)
        if any(self.resolver.is_dict(value) for value in owners):
            yield from self.resolver.elements(module, node.value, node.attr)
        elif not named:
            yield Value("unknown", node, module, qualified or node.attr)

    def writes(self, module: Module, node: ast.Attribute) -> Iterator[Write]:
        """Assignments to the attribute of the same object: by class for `self`, else by the same spelling or class."""
        family = self._family(module, node.value)
        spelled = dotted(node.value)
        for owner, target, value, path in self.written.get(node.attr, ()):
            other_family = self._family(owner, target.value)
            if family and other_family:
                if family & other_family:
                    yield owner, target, value, path
            elif spelled is not None and dotted(target.value) == spelled and not (family or other_family):
                yield owner, target, value, path

    def _family(self, module: Module, node: ast.AST) -> set[ast.AST]:
        """Classes that the object may belong to (empty when unknown)."""
        scope = module.scope_of.get(node, module.scope)
        if isinstance(node, ast.Name) and node.id == scope.self_name and scope.owner_class is not None:
            cls = scope.owner_class.node
            return self.resolver.family(module, cls) if isinstance(cls, ast.ClassDef) else set()
        family: set[ast.AST] = set()
        for value in self.resolver.values(module, node):
            if value.kind == "instance" and isinstance(value.node, ast.Call) and value.module is not None:
                found = self.resolver.definition(value.module.qualified(value.node.func), value.module)
                if found is not None and isinstance(found[1], ast.ClassDef):
                    family |= self.resolver.family(found[0], found[1])
        return family
