"""Follow one batch through a step with several backward passes: two networks against each other, two views of one sample.

In: a loop whose gradients are all exchanged (`facts.passes`).  Out: as for any step, obstacles for whatever a process must not do
with its share.  Besides the plain loss functions, a mean over what was computed sample by sample is a loss, and rows that the step
makes or draws for its samples are rows.
"""

from __future__ import annotations

import ast

from migrator.facts.loaders.batch_loops import BatchLoop
from migrator.facts.loaders.loaders import is_counting
from migrator.facts.python.nodes import dotted, walk
from migrator.facts.python.syntax import Module, Span
from migrator.facts.randomness.random_draws import draws_itself, draws_random
from migrator.facts.steps.flow import Flow
from migrator.facts.steps.obstacles import Obstacles
from migrator.facts.steps.rows import draws_rows, makes_rows

WHOLE_DRAW = "random numbers are drawn for the whole batch"
_ELEMENTWISE = frozenset(
    f"torch.{home}{name}"
    for home in ("", "nn.functional.")
    for name in (
        *("relu", "leaky_relu", "softplus", "sigmoid", "logsigmoid", "tanh", "elu", "clamp", "abs", "square", "sqrt"),
        *("exp", "log", "log1p", "neg", "pow"),
    )
)
_LAYERS = frozenset(
    f"torch.nn.{name}" for name in ("ReLU", "LeakyReLU", "Softplus", "Sigmoid", "LogSigmoid", "Tanh", "ELU")
)
_METHODS = frozenset(
    ["relu", "sigmoid", "tanh", "abs", "square", "pow", "exp", "log", "neg", "clamp_min", "clamp_max", "sqrt"]
)
_PICTURES = frozenset(["save_image", "make_grid", "add_image", "add_images"])


class SeveralPasses(Flow):
    """A step of one process with its share of the batch; `drawn` are the draws that it makes for its own samples."""

    def __init__(self, reader: Obstacles, module: Module, loop: BatchLoop):
        super().__init__(reader, module, loop)
        self.drawn: dict[Span, ast.Call] = {}

    @property
    def body(self) -> list[ast.stmt]:
        return self.loop.body

    def library(self, node: ast.Call) -> str:
        return self.program.external(self.module, node)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.For) and is_counting(node.iter) and self.kind(node.iter) is None:
            self.read([*node.body, *node.orelse])  # several steps with one batch
        else:
            super()._statement(node)

    def _expression_statement(self, node: ast.Expr) -> None:
        name = dotted(node.value.func) if isinstance(node.value, ast.Call) else None
        if name is not None and name.rpartition(".")[2] in _PICTURES:
            self._check_random(node.value)
            return  # of some samples, as rank 0 has them
        super()._expression_statement(node)

    def _call_kind(self, node: ast.Call) -> str | None:
        if makes_rows(self, node):
            return "rows"
        func, name = node.func, self.library(node)
        given = [self.kind(part) for part in [*node.args, *(keyword.value for keyword in node.keywords)]]
        if name == "torch.mean" and given == ["rows"]:
            return "loss"
        if given[:1] == ["rows"] and not any(given[1:]) and (name in _ELEMENTWISE or self._is_layer(func)):
            return "rows"
        if isinstance(func, ast.Attribute) and not any(given) and self.kind(func.value) == "rows":
            if func.attr == "mean" and not given:
                return "loss"
            if func.attr in _METHODS:
                return "rows"
        return super()._call_kind(node)

    def _is_layer(self, func: ast.expr) -> bool:
        """`nn.ReLU()`, or a name of one."""
        values = self.program.resolver.values(self.module, func)
        return bool(values) and all(value.kind == "call" and value.name in _LAYERS for value in values)

    def _check_random(self, node: ast.AST) -> None:
        if not draws_random(self.program, self.module, node):
            return
        draws = [n for n in walk(node) if isinstance(n, ast.Call) and draws_itself(self.program, self.module, n)]
        hidden = [n for n in walk(node) if isinstance(n, ast.Call) and n not in draws and self._draws_inside(n)]
        if hidden or not all(draws_rows(self, draw) for draw in draws):
            self.stop(node, WHOLE_DRAW)
        self.drawn |= {self.module.span(draw): draw for draw in draws}

    def _draws_inside(self, node: ast.Call) -> bool:
        callee = self.program.resolver.callee(self.module, node)
        if callee is None or not isinstance(callee[1], ast.FunctionDef):
            return False
        return draws_random(self.program, *callee)
