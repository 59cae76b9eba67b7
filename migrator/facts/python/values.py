"""What an expression may be.

Records only: a `Resolver` finds them.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from migrator.facts.python.syntax import Module


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression may be: kind is call, instance, class, function, module, constant, display or unknown."""

    kind: str
    node: ast.AST | None
    module: Module | None
    name: str = ""

    @property
    def is_call(self) -> bool:
        return self.kind in ("call", "instance")


def definition_value(definition: tuple[Module, ast.AST]) -> Value:
    """The value of a name that a function or class of the project has."""
    module, node = definition
    return Value("class" if isinstance(node, ast.ClassDef) else "function", node, module)


@dataclass(frozen=True, slots=True)
class Told:
    """What the user says: values of expressions, and of names of which nothing is known."""

    nodes: Mapping[ast.AST, tuple[Value, ...]]
    names: Mapping[str, tuple[Value, ...]]
