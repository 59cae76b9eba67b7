"""What the parts of the resolver ask of each other.

Attributes, containers and calls lead to one another, in circles too; each part knows the others only by these questions, which
the `Resolver` hands to the part that answers them.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager

from migrator.facts.python.definitions import Definitions
from migrator.facts.python.scopes import Binding, Scope
from migrator.facts.python.syntax import Module
from migrator.facts.python.values import Value

# Where an attribute is written: its module, the target, the value (if it is in sight) and the positions taken out of it.
Write = tuple[Module, ast.Attribute, ast.AST | None, tuple[int, ...]]


class Answers(Definitions, ABC):
    """The definitions of a program, and questions about its expressions."""

    @abstractmethod
    def values(self, module: Module, node: ast.AST | None) -> tuple[Value, ...]:
        """Everything that the expression may be."""

    @abstractmethod
    def bound(self, module: Module, scope: Scope, binding: Binding) -> Iterator[Value]:
        """What a binding of a scope gives its name."""

    @abstractmethod
    def returns(self, module: Module, function: ast.AST) -> Iterator[tuple[Module, ast.AST | None]]:
        """The expressions that a project function gives back."""

    # ---------------------------------------------------------------- attributes
    @property
    @abstractmethod
    def attribute_writes(self) -> dict[str, list[Write]]:
        """Where attributes are written, by name."""

    # ---------------------------------------------------------------- containers
    @abstractmethod
    def unpack(self, module: Module, value: ast.AST, path: tuple[int, ...]) -> Iterator[Value]:
        """What stands at the positions of a path in a value: `(1, 0)` is `value[1][0]`."""

    @abstractmethod
    def elements(self, module: Module, container: ast.AST, key: object = None) -> Iterator[Value]:
        """Elements of a list, tuple or dictionary; with a constant key only the one it names."""

    @abstractmethod
    def is_dict(self, value: Value) -> bool:
        """True for `dict(...)` and for objects of a subclass of it."""

    # ---------------------------------------------------------------- calls
    @abstractmethod
    def callee(self, module: Module, call: ast.Call) -> tuple[Module, ast.AST] | None:
        """The project's function, method or class that a call runs."""

    @abstractmethod
    def class_of(self, value: Value) -> tuple[Module, ast.ClassDef] | None:
        """The project's class of an instance."""

    # ---------------------------------------------------------------- questions in questions
    @property
    @abstractmethod
    def depth(self) -> int:
        """How deep in questions the one is that is being answered."""

    @abstractmethod
    def cut_at(self, depth: int) -> None:
        """Note that an answer is not full, because it would need that of a question which is still open."""

    @abstractmethod
    def apart(self) -> AbstractContextManager[None]:
        """Within it questions are answered in full, whatever question is open outside."""

    @abstractmethod
    def forget(self) -> None:
        """Drop answers about parameters from before all calls were known."""
