"""Methods and functions of tensors, by what becomes of a batch's rows."""

from __future__ import annotations

import ast

from migrator.facts.python.syntax import Module

# Methods that keep one row per sample.
ROWWISE = frozenset(
    [
        "cuda",
        "to",
        "cpu",
        "float",
        "half",
        "double",
        "long",
        "int",
        "bool",
        "byte",
        "type",
        "type_as",
        "contiguous",
        "detach",
        "requires_grad_",
        "view",
        "reshape",
        "squeeze",
        "unsqueeze",
        "permute",
        "transpose",
        "flatten",
        "clone",
        "numpy",
        "pin_memory",
        "data",
        "items",
        "values",
        "div_",
        "mul_",
        "sub_",
        "add_",
        "div",
        "mul",
        "sub",
        "add",
        "clamp",
        "argmax",
    ]
)
# What gives something else than tensors.
NO_TENSORS = frozenset(["numpy", "items", "values"])
# Functions that give their first argument's rows in another type.
TAKES_OVER = frozenset(
    [
        "torch.autograd.Variable",
        "torch.autograd.variable.Variable",
        "torch.from_numpy",
        "torch.as_tensor",
        "torch.tensor",
    ]
    + [f"torch.{kind}Tensor" for kind in ("Float", "Long", "Double", "Int")]
)


def mixes_rows(module: Module, node: ast.Call, keeps_size: bool) -> bool:
    """`view(-1, …)` of a tensor keeps samples together; another leading size may not."""
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("view", "reshape") and not keeps_size:
        sizes = node.args[0].elts if node.args and isinstance(node.args[0], ast.Tuple | ast.List) else node.args
        return bool(sizes) and module.segment(sizes[0]).replace(" ", "") != "-1"
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("transpose", "permute", "unsqueeze"):
        sizes = node.args[0].elts if node.args and isinstance(node.args[0], ast.Tuple | ast.List) else node.args
        moved = [
            s.value if isinstance(s, ast.Constant) else 0 for s in sizes[: 2 if node.func.attr == "transpose" else 1]
        ]
        return not moved or (moved[0] != 0 if node.func.attr == "permute" else 0 in moved)
    return False
