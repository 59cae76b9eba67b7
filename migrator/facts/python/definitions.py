"""The functions and classes of a program, by name, and how its classes derive from each other.

In: the modules of a program.  Out: the definition of a qualified name (re-exports, star imports and implicit packages are followed), the
name in its library of what is not the project's own, and the bases, relatives and methods of a class.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrator.facts.python.scopes import Scope
from migrator.facts.python.syntax import Module

_STAR_EXPORTS = frozenset({"torch.nn.Module", "torch.nn.DataParallel", "torch.nn.parallel.DataParallel"})


class Definitions:
    """All definitions of a program's modules."""

    def __init__(self, modules: dict[str, Module]):
        self.modules = modules
        self.definitions: dict[str, tuple[Module, ast.AST]] = {}
        self.methods: dict[str, list[Scope]] = {}
        self._definitions_memo: dict[tuple[str, str], tuple[Module, ast.AST] | None] = {}
        self._external_memo: dict[tuple[str, str], str] = {}
        self._lines: dict[ast.AST, set[ast.AST]] | None = None  # subclasses by class
        self._families: dict[ast.AST, set[ast.AST]] = {}
        self._by_tail: dict[str, list[str]] = {}
        for module in modules.values():
            for node in module.nodes:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    self._add_definition(module, node)
        for name in modules:
            parts = name.split(".")
            for start in range(len(parts)):
                self._by_tail.setdefault(".".join(parts[start:]), []).append(name)

    def _add_definition(self, module: Module, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        scope = module.scopes[node]
        self.definitions[f"{module.name}.{scope.name}"] = (module, node)
        if not isinstance(node, ast.ClassDef) and scope.parent is not None and scope.parent.is_class:
            self.methods.setdefault(node.name, []).append(scope)

    # ---------------------------------------------------------------- names
    def definition(self, qualified: str | None, module: Module) -> tuple[Module, ast.AST] | None:
        """The project's function or class of a qualified name (re-exports and implicit packages are followed)."""
        if not qualified:
            return None
        key = (module.name, qualified)
        if key not in self._definitions_memo:
            self._definitions_memo[key] = None  # a cycle of star imports finds nothing new
            self._definitions_memo[key] = self._definition(qualified, module)
        return self._definitions_memo[key]

    def _definition(self, qualified: str, module: Module) -> tuple[Module, ast.AST] | None:
        for candidate in (f"{module.name}.{qualified}", qualified):
            if candidate in self.definitions:
                return self.definitions[candidate]
        head, _, last = qualified.rpartition(".")
        if head:
            owner = self.find_module(head, module)
            if owner is not None:
                found = self.definitions.get(f"{owner.name}.{last}")
                if found is not None:
                    return found
                if last in owner.imports and owner.imports[last] != qualified:
                    return self.definition(owner.imports[last], owner)
                for star in owner.star_imports:
                    found = self.definition(f"{star}.{last}", owner)
                    if found is not None:
                        return found
            inner = self.definition(head, module)
            if inner is not None and isinstance(inner[1], ast.ClassDef):
                return self.definitions.get(f"{inner[0].name}.{inner[0].scopes[inner[1]].name}.{last}")
        elif qualified not in module.scope.bindings:
            for star in module.star_imports:
                found = self.definition(f"{star}.{qualified}", module)
                if found is not None:
                    return found
        return None

    def find_module(self, name: str, importer: Module) -> Module | None:
        """The program's module of a dotted name, as seen from another module."""
        if name in self.modules:
            return self.modules[name]
        package = importer.name.rpartition(".")[0]
        if package and f"{package}.{name}" in self.modules:
            return self.modules[f"{package}.{name}"]
        tails = self._by_tail.get(name, [])
        return self.modules[tails[0]] if len(tails) == 1 else None

    def external_name(self, module: Module, node: ast.AST) -> str | None:
        """The library name of an expression, also when it arrives by a star import: `nn.Linear` → `torch.nn.Linear`."""
        name = module.qualified(node)
        if name is None:
            return None
        key = (module.name, name)
        if key not in self._external_memo:
            self._external_memo[key] = self._through_reexports(name, module, 0)
        return self._external_memo[key]

    def _through_reexports(self, name: str, module: Module, depth: int) -> str:
        head, _, rest = name.partition(".")
        if depth > 6:
            return name
        if head not in module.imports and head not in module.scope.bindings and module.star_imports:
            for star in module.star_imports:
                owner = self.find_module(star, module)
                if owner is not None and head in owner.imports:
                    full = owner.imports[head] + (f".{rest}" if rest else "")
                    return self._through_reexports(full, owner, depth + 1)
                if owner is None and star.split(".")[0] in ("torch", "torchvision"):
                    if f"{star}.{head}" in _STAR_EXPORTS or star in ("torch.nn", "torch.optim", "torch.utils.data"):
                        return f"{star}.{name}"
                if owner is not None:
                    deeper = self._through_reexports(name, owner, depth + 1)
                    if deeper != name:
                        return deeper
        owner_name, _, last = name.rpartition(".")
        owner = self.find_module(owner_name, module) if owner_name else None
        if owner is not None and last in owner.imports and f"{owner.name}.{last}" not in self.definitions:
            return self._through_reexports(owner.imports[last], owner, depth + 1)
        return name

    # ---------------------------------------------------------------- classes
    def bases(self, module: Module, node: ast.ClassDef) -> Iterator[tuple[Module, ast.ClassDef]]:
        """The class and its project base classes, nearest first."""
        yield module, node
        for base in node.bases:
            found = self.definition(module.qualified(base), module)
            if found is not None and isinstance(found[1], ast.ClassDef) and found[1] is not node:
                yield from self.bases(found[0], found[1])

    def external_bases(self, module: Module, node: ast.ClassDef) -> set[str]:
        """Qualified names of the library classes that a project class derives from."""
        names: set[str] = set()
        for owner, cls in self.bases(module, node):
            for base in cls.bases:
                if self.definition(owner.qualified(base), owner) is None:
                    names.add(self.external_name(owner, base) or "")
        return names

    def family(self, module: Module, node: ast.ClassDef) -> set[ast.AST]:
        """The class, its bases and its subclasses."""
        if self._lines is None:
            self._lines = {}
            for other_module, other in list(self.definitions.values()):
                if isinstance(other, ast.ClassDef):
                    for _, base in self.bases(other_module, other):
                        self._lines.setdefault(base, set()).add(other)
        if node not in self._families:
            self._families[node] = {cls for _, cls in self.bases(module, node)} | self._lines.get(node, set())
        return self._families[node]

    def method(self, module: Module, node: ast.ClassDef, name: str) -> tuple[Module, ast.AST] | None:
        for owner, cls in self.bases(module, node):
            found = self.definitions.get(f"{owner.name}.{owner.scopes[cls].name}.{name}")
            if found is not None:
                return found
        return None

    def overrides(self, module: Module, node: ast.ClassDef, name: str) -> Iterator[tuple[Module, ast.AST]]:
        """The methods of a name that relatives of the class define, without abstract ones."""
        own = self.method(module, node, name)
        family = self.family(module, node)
        for owner, relative in list(self.definitions.values()):
            if relative in family and isinstance(relative, ast.ClassDef):
                found = self.definitions.get(f"{owner.name}.{owner.scopes[relative].name}.{name}")
                if found is not None and found != own and not is_abstract(found[1]):
                    yield found


def is_abstract(function: ast.AST) -> bool:
    """A method that only says that there must be one: nothing but a docstring and `pass`, or a `raise` before all else."""
    body = getattr(function, "body", None)
    if not isinstance(body, list):
        return False
    said = [s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    return all(isinstance(s, ast.Pass) for s in said) or isinstance(said[0], ast.Raise)
