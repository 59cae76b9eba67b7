"""How kinds of values go together: `rows` (one per sample), `loss` (a plain mean over the samples), `figure` (a measurement)."""

from __future__ import annotations

import ast
from collections.abc import Iterable


def one_kind(kinds: Iterable[str | None]) -> str | None:
    """The kind of what holds several values: theirs, where it is the same."""
    found = set(kinds) - {None}
    return None if not found else found.pop() if len(found) == 1 else "figure"


def binary_kind(node: ast.BinOp, left: str | None, right: str | None) -> str | None:
    """What an operation gives on values of two kinds: sums and multiples of means are means, those of rows are rows."""
    if left is None and right is None:
        return None
    if "loss" in (left, right):
        if isinstance(node.op, ast.Add | ast.Sub) and left == right == "loss":
            return "loss"
        if isinstance(node.op, ast.Add) and (_is_zero(node.left) or _is_zero(node.right)):
            return "loss"
        if isinstance(node.op, ast.Mult) and None in (left, right):
            return "loss"
        if isinstance(node.op, ast.Div) and left == "loss" and right is None:
            return "loss"
        return "figure"
    if (
        "rows" in (left, right)
        and None in (left, right)
        and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div)
    ):
        return "rows"
    return "figure"


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (0, 0.0)
