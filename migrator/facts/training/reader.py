"""What reads a training loop: the program, what is known so far, and where obstacles are put.

In: a `Program` and the user's word.  Out: a `Training` that the parts of the reading fill.
"""

from __future__ import annotations

import ast

from migrator.facts.model import Place
from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module, Span
from migrator.facts.python.values import Value
from migrator.facts.training.training import Training


class Reader:
    """What the parts of the reading share."""

    def __init__(self, program: Program, loss: str = "auto", find_unused: bool = False):
        self.program, self.resolver = program, program.resolver
        self.local_loss, self.whole_loss, self.find_unused = loss == "local", loss == "global", find_unused
        self.training = Training()
        self.toggles: frozenset[ast.AST] = frozenset()  # what freezes whole networks for a part of a step

    def obstacle(self, module: Module, node: ast.AST, note: str) -> None:
        """Something that speaks against loading shares of batches."""
        self._add(self.training.obstacles, module, node, note)

    def order_obstacle(self, module: Module, node: ast.AST, note: str) -> None:
        """Something that speaks against a DistributedSampler: which samples come, and in what order, is not its own."""
        self._add(self.training.order_obstacles, module, node, note)

    @staticmethod
    def _add(places: list[Place], module: Module, node: ast.AST, note: str) -> None:
        anchor = node if hasattr(node, "lineno") else module.tree.body[0]
        place = Place(module.span(anchor), module.span(module.statement(anchor)), module.segment(anchor), note)
        if place not in places:
            places.append(place)

    def node(self, module: Module, span: Span) -> ast.AST:
        return next(n for n in module.nodes if isinstance(n, ast.expr | ast.stmt) and module.span(n) == span)


def is_at(value: Value, places: set[Span]) -> bool:
    return (
        value.kind == "call"
        and value.node is not None
        and value.module is not None
        and value.module.span(value.node) in places
    )


def in_message(module: Module, node: ast.AST) -> bool:
    for ancestor in module.ancestors(node):
        if isinstance(ancestor, ast.Call):
            name = dotted(ancestor.func) or (ancestor.func.attr if isinstance(ancestor.func, ast.Attribute) else "")
            if name.rpartition(".")[2] in ("print", "format", "info", "write", "Bar", "progress_bar", "ProgressMeter"):
                return True
        if isinstance(ancestor, ast.JoinedStr):
            return True
    return False
