"""Follow one batch through the body of a loop.

In: a loop and the program.  Out: what the batch flows into (the model, the loss, figures) and obstacles, with their places, for
whatever is not on the whitelist: moves, one forward, a plain mean, measurements.
"""

from __future__ import annotations

import ast

from migrator.facts.evaluation.evaluated import is_evaluation_beside
from migrator.facts.loaders.batch_loops import BatchLoop
from migrator.facts.python.nodes import dotted, names_in, walk
from migrator.facts.python.syntax import Module
from migrator.facts.steps.batch_values import BatchValues
from migrator.facts.steps.figures import Figures
from migrator.facts.steps.given import Given
from migrator.facts.steps.obstacles import Obstacles

_METER_METHODS = frozenset(
    [
        "update",
        "add",
        "append",
        "add_scalar",
        "add_scalars",
        "log",
        "set_postfix",
        "set_description",
        "write",
        "info",
        "debug",
        "print",
    ]
)


class Flow(BatchValues):
    """Follows one batch through the statements of a loop's body."""

    def __init__(
        self,
        reader: Obstacles,
        module: Module,
        loop: BatchLoop | ast.FunctionDef,
        evaluation: bool = False,
        given: Given | None = None,
    ):
        super().__init__(reader, module, loop, evaluation, given)
        self._figures = Figures(self)
        self.figures = self._figures.known
        self.copies: dict[str, str] = {}  # names that keep what a figure was
        self.loss_text = ""

    def follow(self) -> None:
        """Read the loop twice: in the second pass figures are known, and so is what one step leaves for the next."""
        self.read(self.loop.body)
        self.begin_again()
        self.read(self.loop.body)

    def read(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign):
            self._assign(node)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._bind(node.target, self.kind(node.value), node)
        elif isinstance(node, ast.AugAssign):
            self._augment(node)
        elif isinstance(node, ast.Expr):
            self._expression_statement(node)
        elif isinstance(node, ast.If | ast.While):
            if self.kind(node.test) is not None or self._mentions_figure(node.test):
                self.stop(node, "what happens next depends on this process's own samples")
            self._check_random(node.test)
            self.read(node.body)
            self.read(node.orelse)
        elif isinstance(node, ast.With):
            for item in node.items:
                kind = self.kind(item.context_expr)
                if item.optional_vars is not None and kind is not None:
                    self._bind(item.optional_vars, self._scaled_by_apex(item.context_expr) or kind, node)
            self.read(node.body)
        elif isinstance(node, ast.For) and self._is_evaluation(node):
            for target in _bound_by(node):
                self._bind(target, None, node)
        elif isinstance(node, ast.For):
            kind = self.kind(node.iter)
            if kind is not None:
                for name in names_in(node.target):
                    self.kinds[name] = "figure"
            forwards = self.forwards
            self.read(node.body)
            if self.forwards > forwards:
                self.stop(node, "the model is called several times in a step")
        elif isinstance(
            node,
            ast.Break | ast.Continue | ast.Pass | ast.Global | ast.Import | ast.ImportFrom | ast.Assert | ast.Delete,
        ):
            return
        elif isinstance(node, ast.Try) and any(call in self.draws for call in walk(node)):
            for way in (node.body, *(handler.body for handler in node.handlers)):
                self.read(way)  # it begins the loader again, on all processes alike
        elif isinstance(node, ast.Try):
            self.stop(node, "an exception on one process would leave the others waiting")
        elif isinstance(node, ast.Return | ast.Raise):
            if _value_of(node) is not None and self.kind(_value_of(node)) is not None:
                self.stop(node, "the loop is left with this process's own samples")
        else:
            self.stop(node, "this statement was not understood")

    def _is_evaluation(self, node: ast.For) -> bool:
        """True for a loop that all processes go through alike, over whole batches of another loader."""
        if self.evaluation or not is_evaluation_beside(self.program, self.module, node, set(self.kinds)):
            return False
        self._check_random(node)
        return True

    def _mentions_figure(self, node: ast.AST) -> bool:
        """True when a condition reads a running figure, which covers this process's samples only."""
        return not self.evaluation and self._shows_figure(node)

    def _shows_figure(self, node: ast.AST) -> bool:
        return any(dotted(n) in self.figures for n in walk(node) if isinstance(n, ast.Name | ast.Attribute))

    def _assign(self, node: ast.Assign) -> None:
        kind, target = self.assign(node), node.targets[0]
        if isinstance(node.value, ast.Name) and node.value.id in self.figures and isinstance(target, ast.Name):
            self.copies[target.id] = node.value.id
        if kind == "loss" and isinstance(target, ast.Name):
            self.loss_text = self.module.segment(node.value)
        if kind == "figure" and isinstance(target, ast.Name) and target.id in names_in(node.value):
            self._figures.count(target.id, node.value)

    def _scaled_by_apex(self, node: ast.expr) -> str | None:
        """The kind of what `with amp.scale_loss(loss, optimizer) as scaled:` gives."""
        scales = isinstance(node, ast.Call) and self.program.external(self.module, node) == "apex.amp.scale_loss"
        return self.kind(node.args[0]) if isinstance(node, ast.Call) and scales and node.args else None

    def _augment(self, node: ast.AugAssign) -> None:
        self._check_random(node.value)
        kind = self.kind(node.value)
        if kind is None:
            return
        if isinstance(node.target, ast.Name) and self.kinds.get(node.target.id) in ("rows", "loss"):
            if kind != self.kinds[node.target.id] or not isinstance(node.op, ast.Add | ast.Div | ast.Mult):
                self.stop(node, "this changes a batch in a way that was not understood")
            return
        if (
            isinstance(node.target, ast.Name)
            and kind == "loss"
            and self._starts_as_number(node.target.id)
            and not self._used_after_loop(node.target.id)
        ):
            self.kinds[node.target.id] = "loss"
            return
        name = dotted(node.target)
        if name is None or not isinstance(node.op, ast.Add):
            self.stop(node, "figures are kept in a way that was not understood")
            return
        self._figures.count(name, node.value)
        if not self.evaluation and isinstance(node.target, ast.Name):
            self.kinds[name] = "figure"  # what the step does with it from here on is seen

    def _starts_as_number(self, name: str) -> bool:
        found = self.module.lookup(name, self.module.scope_of.get(self.loop, self.module.scope))
        return found is not None and any(
            isinstance(b.value, ast.Constant) and b.value.value in (0, 0.0) for b in found[1]
        )

    def _used_after_loop(self, name: str) -> bool:
        end = self.module.span(self.loop).end
        scope = self.module.scope_of.get(self.loop)
        return any(
            isinstance(n, ast.Name)
            and n.id == name
            and isinstance(n.ctx, ast.Load)
            and self.module.scope_of.get(n) is scope
            and self.module.span(n).start > end
            for n in self.module.nodes
        )

    def _expression_statement(self, node: ast.Expr) -> None:
        value = node.value
        self._check_random(value)
        if not isinstance(value, ast.Call):
            self.kind(value)
            return
        kinds = [self.kind(a) for a in [*value.args, *(k.value for k in value.keywords)]]
        method = value.func.attr if isinstance(value.func, ast.Attribute) else ""
        if self.evaluation and (
            dotted(value.func) == "print" or method in ("info", "write", "debug", "log", "display")
        ):
            shown = [a for a in [*value.args, *(k.value for k in value.keywords)] if self._shows_figure(a)]
            if shown:
                self.doubt("it reports figures while it runs, which a share would change")
        receiver = self.kind(value.func.value) if isinstance(value.func, ast.Attribute) else None
        if method == "backward":
            if receiver is None and kinds and kinds[0] is not None:
                receiver = kinds[0]  # scaler.scale(loss).backward(), optimizer.backward(loss)
            if receiver != "loss":
                self.stop(node, "the loss is not a plain mean over the samples that could be recognised")
            return
        if method == "step" and any(k is not None for k in kinds):
            self.stop(node, "the step depends on this process's own samples")
            return
        if all(k is None for k in kinds) and receiver is None:
            return
        if method == "update" and isinstance(value.func, ast.Attribute) and receiver is None:
            self._figures.meter(value, kinds)
            return
        name = dotted(value.func) or ""
        if name == "print" or method in _METER_METHODS - {"append", "add"}:
            return
        if method in ("append", "extend", "add") and receiver is None:
            if any(k in ("rows", "loss") for k in kinds) and not self.evaluation:
                self.stop(node, "outputs are collected over batches")
            self.doubt("it collects outputs over batches")
            return
        if receiver in ("rows", "loss") and method.endswith("_") and all(k is None for k in kinds):
            return
        if name.rpartition(".")[2] in ("progress_bar",) or self._only_shows(name):
            return
        self.doubt(f"what {name or 'this call'} does with the batch was not recognised")
        if not self.evaluation:
            self.stop(node, "what this does with the batch was not understood")

    @staticmethod
    def _only_shows(name: str) -> bool:
        return name.rpartition(".")[2] in (
            "info",
            "debug",
            "write",
            "set_postfix",
            "set_description",
            "log",
            "show",
            "display",
        )


def _bound_by(node: ast.For) -> list[ast.Name]:
    return [n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def _value_of(node: ast.Return | ast.Raise) -> ast.expr | None:
    return node.value if isinstance(node, ast.Return) else None
