"""Names of a step that hold what the wrapped model gave: all of it, or one of its parts.

In: the assignments of a step, in their order.  Out: whether an expression is such an output whole, with a row for each sample or
a number for each device.  Its mean is the mean over the devices' means then, whichever of the two it is.
"""

from __future__ import annotations

import ast

from migrator.facts.networks.output_parts import gives_parts
from migrator.facts.program import Program
from migrator.facts.python.syntax import Module
from migrator.facts.steps.model_calls import model_called


class OutputNames:
    """What the names of a step hold of the model's outputs."""

    def __init__(self, program: Program, module: Module):
        self.program, self.module = program, module
        self._held: dict[
            str, ast.Call | None
        ] = {}  # the call where the name holds all outputs, None for a part of them

    def bind(self, target: ast.expr, value: ast.expr) -> None:
        """Note an assignment."""
        if isinstance(target, ast.Tuple | ast.List):
            whole = self.holds(value) or self._call(value) is not None
            for element in target.elts:
                self._bind(element, whole, None)
        else:
            call = self._call(value)
            self._bind(target, call is not None or self.holds(value), call)

    def holds(self, node: ast.expr) -> bool:
        """True for an output of the model, and not for some of its samples."""
        if isinstance(node, ast.Name):
            return node.id in self._held
        if isinstance(node, ast.Attribute):
            return self._call(node.value) is not None
        if isinstance(node, ast.Subscript):
            call = self._call(node.value)
            named = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
            return call is not None and (named or self._has_parts(call))
        return self._call(node) is not None

    def _bind(self, target: ast.expr, holds: bool, call: ast.Call | None) -> None:
        if isinstance(target, ast.Name) and holds:
            self._held[target.id] = call
        elif isinstance(target, ast.Name):
            self._held.pop(target.id, None)

    def _call(self, node: ast.expr) -> ast.Call | None:
        """The model's call whose outputs an expression is."""
        if isinstance(node, ast.Name):
            return self._held.get(node.id)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            call = self._call(node.value)
            return call if call is not None and self._has_parts(call) else None
        if not isinstance(node, ast.Call) or model_called(self.program, self.module, node) is None:
            return None
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        return node if not any(self.holds(one) for one in given) else None  # not a criterion in a wrapper of its own

    def _has_parts(self, call: ast.Call) -> bool:
        model = model_called(self.program, self.module, call)
        return model is not None and gives_parts(self.program, model[0], call, model[1])
