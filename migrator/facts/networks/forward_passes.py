"""The forward passes of what a wrapper is given.

In: an expression for a model, where it is wrapped.  Out: for each class that it may be the method; True where it is a library's of
transformers, False where it is not in sight.
"""

from __future__ import annotations

import ast

from migrator.facts.program import Program
from migrator.facts.python.made_of import definitions
from migrator.facts.python.syntax import Module
from migrator.facts.python.values import Value
from migrator.facts.wraps.wrapper_names import DATA_PARALLEL, DISTRIBUTED

Forward = tuple[Module, ast.FunctionDef] | bool
_LIBRARIES = ("transformers.", "pytorch_transformers.", "pytorch_pretrained_bert.")
_MAKES = frozenset(["from_pretrained", "from_config", "to", "cuda"])


def forward_passes(program: Program, module: Module, inner: ast.expr, depth: int = 3) -> list[Forward]:
    """The forward passes behind an expression; of a name those of the values that it may have there."""
    made = [v for _, v in definitions(module, module.statement(inner), inner.id)] if isinstance(inner, ast.Name) else []
    return [one for expression in made or [inner] for one in _made(program, module, expression, depth)]


def _made(program: Program, module: Module, node: ast.expr, depth: int) -> list[Forward]:
    found: list[Forward] = []
    for value in program.resolver.values(module, node):
        if value.name in DATA_PARALLEL | DISTRIBUTED or (
            value.kind == "constant" and getattr(value.node, "value", 0) is None
        ):
            continue
        if _is_initialized(program, value) and value.module is not None and isinstance(value.node, ast.Call):
            same = value.node.args[:1] if depth else []  # it gives back what it is given
            found += [one for given in same for one in forward_passes(program, value.module, given, depth - 1)]
            continue
        owner = program.resolver.class_of(value) if value.kind == "instance" else None
        func = value.node.func if isinstance(value.node, ast.Call) else None
        if owner is None and value.module is not None and isinstance(func, ast.Attribute) and func.attr in _MAKES:
            classes = program.resolver.values(value.module, func.value)
            for one in classes:
                if one.kind == "class" and one.module is not None and isinstance(one.node, ast.ClassDef):
                    found.append(_forward(program, one.module, one.node))
                else:
                    found.append(one.name.startswith(_LIBRARIES) or _is_library(program, one))
            if not classes:
                found.append(value.name.startswith(_LIBRARIES))
        elif owner is not None:
            found.append(_forward(program, *owner))
        else:
            found.append(value.name.startswith(_LIBRARIES))
    return found or [False]


def _is_initialized(program: Program, value: Value) -> bool:
    """True for what `amp.initialize(model, optimizer)` gives, and for what is unpacked of it."""
    call, module = value.node, value.module
    return isinstance(call, ast.Call) and module is not None and program.external(module, call) == "apex.amp.initialize"


def _is_library(program: Program, value: Value) -> bool:
    if value.module is None or not isinstance(value.node, ast.Name | ast.Attribute):
        return False
    return (program.resolver.external_name(value.module, value.node) or "").startswith(_LIBRARIES)


def _forward(program: Program, module: Module, node: ast.ClassDef) -> Forward:
    method = program.resolver.method(module, node, "forward")
    if method is not None and isinstance(method[1], ast.FunctionDef):
        return method[0], method[1]
    return any(base.startswith(_LIBRARIES) for base in program.resolver.external_bases(module, node))
