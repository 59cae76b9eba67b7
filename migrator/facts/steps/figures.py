"""The figures that a loop over batches keeps, and how those of several shares can be put together.

In: what the loop's expressions hold of a batch.  Out: each figure's name with `sum` (counts are added), `mean` (means of batches are),
`object` (a meter with sum and count) or `other`.
"""

from __future__ import annotations

import ast
import re

from migrator.facts.python.nodes import dotted, walk
from migrator.facts.python.values import Value
from migrator.facts.steps.batch_values import BatchValues


class Figures:
    """What is counted, by name."""

    def __init__(self, values: BatchValues):
        self.values = values
        self.known: dict[str, str] = {}
        self._counting = ""

    def count(self, name: str, value: ast.expr) -> None:
        """A counter: `sum` when counts are added, `mean` when means of batches are, else `other`."""
        self._counting = name
        kind = "sum" if self._adds_up(value) else "mean" if self._is_loss_figure(value) else "other"
        if self.known.get(name, kind) != kind:
            kind = "other"
        self.known[name] = kind
        if kind != "sum":
            self.values.doubt(f"what is added to {name} is not weighted by the number of samples")

    def _adds_up(self, value: ast.expr) -> bool:
        """True for sums and counts over samples, and for means multiplied by a number of samples."""
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
            return any(self.values.is_size(side) for side in (value.left, value.right))
        if self.values.is_size(value):
            return True
        text = self.values.module.segment(value).replace(" ", "")
        return ".sum()" in text and not re.search(r"\.mean\(|/", text)

    def _is_loss_figure(self, value: ast.expr) -> bool:
        """`loss.item()`, `float(loss)`, `loss.data`: the mean over one batch."""
        inner: ast.AST = value
        while True:
            if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and not inner.args:
                inner = inner.func.value
            elif isinstance(inner, ast.Call) and dotted(inner.func) == "float" and len(inner.args) == 1:
                inner = inner.args[0]
            elif isinstance(inner, ast.Attribute) and inner.attr == "data":
                inner = inner.value
            elif (
                isinstance(inner, ast.Subscript)
                and isinstance(inner.value, ast.Attribute)
                and inner.value.attr == "data"
            ):
                inner = inner.value.value
            elif isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Add | ast.Sub):
                # A moving average is linear in the losses, so that its mean over processes is that of the mean loss.
                sides = [side for side in (inner.left, inner.right) if self.values.kind(side) is not None]
                return bool(sides) and all(self._is_loss_figure(side) or self._is_own_part(side) for side in sides)
            elif isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mult | ast.Div):
                tainted = [side for side in (inner.left, inner.right) if self.values.kind(side) is not None]
                if len(tainted) != 1 or (isinstance(inner.op, ast.Div) and tainted[0] is inner.right):
                    return False
                inner = tainted[0]
            else:
                return self.values.kind(inner) == "loss"

    def _is_own_part(self, node: ast.expr) -> bool:
        """`average * 0.8`: the figure itself, scaled."""
        factors = [n for n in walk(node) if isinstance(n, ast.Name) and self.values.kinds.get(n.id) is not None]
        only_products = all(isinstance(n.op, ast.Mult | ast.Div) for n in walk(node) if isinstance(n, ast.BinOp))
        return len(factors) == 1 and factors[0].id == self._counting and only_products

    def meter(self, call: ast.Call, kinds: list[str | None]) -> None:
        """An object that is updated: `object` where it is an average of sum and count."""
        assert isinstance(call.func, ast.Attribute)
        name = dotted(call.func.value)
        if name is None:
            self.values.doubt("a figure has no name")
            return
        weighted = len(call.args) >= 2 and self.values.is_size(call.args[1])
        if not weighted and all(k is None for k in kinds):
            return
        if not weighted:
            self.values.doubt(f"{name} is not weighted by the number of samples")
        if not all(
            self._is_average_meter(value)
            for value in self.values.program.resolver.values(self.values.module, call.func.value)
        ):
            self.values.doubt(f"{name} is not an average of sum and count")
            self.known[name] = "other"
            return
        self.known[name] = "object"

    def _is_average_meter(self, value: Value) -> bool:
        if value.kind != "instance" or not isinstance(value.node, ast.Call) or value.module is None:
            return False
        found = self.values.program.resolver.definition(value.module.qualified(value.node.func), value.module)
        if found is None or not isinstance(found[1], ast.ClassDef):
            return False
        written = {n.attr for n in walk(found[1]) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
        return {"sum", "count", "avg"} <= written
