"""Tensors that are trained under names of their own."""

from __future__ import annotations

import ast

from migrator.facts.program import Program
from migrator.facts.python.nodes import argument
from migrator.facts.python.syntax import Module


def is_parameter(program: Program, module: Module, node: ast.AST) -> bool:
    """A parameter or a tensor that requires a gradient, by a name of its own."""
    if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return False
    for value in program.resolver.values(module, node):
        if value.kind == "call" and isinstance(value.node, ast.Call) and value.name.startswith("torch."):
            if value.name.endswith(".Parameter") or argument(value.node, "requires_grad", None) is not None:
                return True
    return False
