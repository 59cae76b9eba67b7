"""Tensors that a step makes for the samples of its batch, one row for each: noise, labels, masks.

In: a call in a step, and what is known of the step's names.  Out: whether it makes rows; whether it draws them, each row for itself.
A process that makes as many rows as its share has samples makes its part of what the original made for the whole batch: constants
are the same, and random rows are as independent of each other as they were.
"""

from __future__ import annotations

import ast
from typing import Protocol

from migrator.facts.python.nodes import argument, dotted, walk
from migrator.facts.python.syntax import Module

_FILLED = frozenset(f"torch.{name}" for name in ("randn", "rand", "zeros", "ones", "empty", "full"))
_SIZED_LAST = frozenset(["torch.randint", "torch.normal"])
_LIKE = frozenset(f"torch.{name}_like" for name in ("randn", "rand", "zeros", "ones", "empty", "full"))
_OLD = frozenset(
    ["torch.Tensor"]
    + [f"torch.{gpu}{kind}Tensor" for gpu in ("", "cuda.") for kind in ("Float", "Double", "Long", "Half")]
)
_NUMPY = frozenset(f"numpy.random.{name}" for name in ("normal", "uniform", "randint", "standard_normal"))
_NEW = frozenset(["new", "new_zeros", "new_ones", "new_empty", "new_full"])
_IN_PLACE = frozenset(["normal_", "uniform_", "bernoulli_", "exponential_", "random_"])
_ABOUT = frozenset(["device", "dtype", "requires_grad", "pin_memory", "layout", "memory_format"])


class Step(Protocol):
    """What is known of a step: its module, the kinds of its expressions, and where its names get their values."""

    module: Module
    fresh: set[str]
    tensors: set[str]
    targets: set[str]

    @property
    def body(self) -> list[ast.stmt]: ...

    def kind(self, node: ast.AST | None) -> str | None: ...

    def library(self, node: ast.Call) -> str: ...


def makes_rows(step: Step, node: ast.Call) -> bool:
    """True for a call that makes a tensor with one row for each sample, in which nothing else of the batch is."""
    name, func = step.library(node), node.func
    if argument(node, "generator", None) is not None:
        return False
    if (
        isinstance(func, ast.Attribute)
        and func.attr in _IN_PLACE | {"fill_", "zero_"}
        and step.kind(func.value) == "rows"
    ):
        return _is_of_settings(step, node, None)
    if name in _LIKE:
        return bool(node.args) and step.kind(node.args[0]) == "rows" and _is_of_settings(step, node, node.args[0])
    size = _size(step, node, name)
    return size is not None and _is_of_settings(step, node, size)


def draws_rows(step: Step, node: ast.Call) -> bool:
    """True for a draw of such rows: none depends on how many others are drawn with it."""
    name = step.library(node)
    drawn = name.startswith(("torch.rand", "torch.normal", "numpy.random."))
    drawn = drawn or (isinstance(node.func, ast.Attribute) and node.func.attr in _IN_PLACE)
    return drawn and makes_rows(step, node)


def counts_rows(step: Step, node: ast.AST | None) -> bool:
    """`x.size(0)`, `x.shape[0]`, `len(x)` of a tensor, and a name that this step gave such a number."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "size":
        return _is_zero(argument(node, "dim", 0)) and step.kind(node.func.value) == "rows"
    if isinstance(node, ast.Call) and dotted(node.func) == "len" and len(node.args) == 1:
        return _is_tensor(step, node.args[0])
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        return _is_zero(node.slice) and step.kind(node.value.value) == "rows"
    if not isinstance(node, ast.Name) or node.id not in step.fresh:
        return False
    given = [value for statement in step.body for value in _given(statement, node.id)]
    return bool(given) and all(value is not None and counts_rows(step, value) for value in given)


def _size(step: Step, node: ast.Call, name: str) -> ast.expr | None:
    """The argument that says how many rows there are."""
    first = node.args[0] if node.args else None
    named = argument(node, "size", None)
    if name in _FILLED or (isinstance(node.func, ast.Attribute) and node.func.attr in _NEW and _is_rows(step, node)):
        for size in (first, named):
            if size is not None and (counts_rows(step, size) or _leads(step, size)):
                return size
    if name in _OLD or name in ("numpy.random.rand", "numpy.random.randn"):
        return first if first is not None and counts_rows(step, first) else None
    if name in _SIZED_LAST:
        sizes = [size for size in (*node.args, named) if size is not None and _leads(step, size)]
        return sizes[0] if sizes else None
    if name in _NUMPY:
        return named if named is not None and _leads(step, named) else None
    return None


def _is_rows(step: Step, node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and step.kind(node.func.value) == "rows"


def _leads(step: Step, size: ast.expr) -> bool:
    """`(x.size(0), 3)`."""
    return isinstance(size, ast.Tuple | ast.List) and bool(size.elts) and counts_rows(step, size.elts[0])


def _is_of_settings(step: Step, node: ast.Call, size: ast.expr | None) -> bool:
    """True where a call is given the number of rows and otherwise nothing of the batch but its device and type."""
    given = [part for part in node.args if part is not size]
    given += [k.value for k in node.keywords if k.arg not in _ABOUT and k.value is not size]
    rest = size.elts[1:] if isinstance(size, ast.Tuple | ast.List) else []
    return all(_is_setting(step, part) for part in (*given, *rest)) and not any(
        isinstance(p, ast.Starred) for p in node.args
    )


def _is_setting(step: Step, node: ast.expr) -> bool:
    """Nothing of the batch, or what its samples have in common: `x.size(1)`."""
    if step.kind(node) is None:
        return True
    text = step.module.segment(node).replace(" ", "")
    return text.endswith((".size(1)", ".size(2)", ".size(3)", ".shape[1]", ".shape[2]", ".shape[3]"))


def _is_tensor(step: Step, node: ast.expr) -> bool:
    """True for rows in one tensor, not in a list of several."""
    if step.kind(node) != "rows":
        return False
    if not isinstance(node, ast.Name) or node.id in step.tensors:
        return True
    given = [value for statement in step.body for value in _given(statement, node.id)]
    return node.id not in step.targets and bool(given) and all(isinstance(v, ast.Call | ast.Subscript) for v in given)


def _given(statement: ast.stmt, name: str) -> list[ast.expr | None]:
    """What a statement gives to a name; None for what is no plain assignment."""
    found: list[ast.expr | None] = []
    for node in walk(statement):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id == name:
                    found.append(node.value)
                elif isinstance(target, ast.Tuple) and any(
                    isinstance(e, ast.Name) and e.id == name for e in target.elts
                ):
                    found.append(_paired(target, node.value, name))
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For | ast.NamedExpr):
            if any(isinstance(n, ast.Name) and n.id == name for n in walk(node.target)):
                found.append(None)
    return found


def _paired(target: ast.Tuple, value: ast.expr, name: str) -> ast.expr | None:
    """`a, b = x, y` gives `b` the value `y`."""
    if not isinstance(value, ast.Tuple) or len(value.elts) != len(target.elts):
        return None
    pairs = zip(target.elts, value.elts, strict=True)
    return next((given for one, given in pairs if isinstance(one, ast.Name) and one.id == name), None)


def _is_zero(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0
