"""Follow one batch through the body of a loop.

In: a loop and the program.  Out: what the batch flows into (the model, the loss, figures) and obstacles, with their places, for
whatever is not on the whitelist: moves, one forward, a plain mean, measurements.
"""

from __future__ import annotations

import ast
import re
from typing import Protocol

from migrator.facts import losses
from migrator.facts.batch_loops import BatchLoop
from migrator.facts.given import Given, given_by
from migrator.facts.model_calls import model_called
from migrator.facts.past_wrapper import is_past_wrapper
from migrator.facts.program import Program
from migrator.facts.random_draws import draws_random
from migrator.facts.syntax import Module, Span, argument, dotted, has_unpacking, names_in, walk
from migrator.facts.values import Value

# Methods that keep one row per sample.
_ROWWISE = frozenset(
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
# What gives something else than tensors.
NO_TENSORS = frozenset(["numpy", "items", "values"])
# Functions that give their first argument's rows in another type.
_TAKES_OVER = frozenset(
    [
        "torch.autograd.Variable",
        "torch.autograd.variable.Variable",
        "torch.from_numpy",
        "torch.as_tensor",
        "torch.tensor",
    ]
    + [f"torch.{kind}Tensor" for kind in ("Float", "Long", "Double", "Int")]
)


class Obstacles(Protocol):
    """Where a flow reports what it does not understand."""

    program: Program
    local_loss: bool  # the user vouches that each share's loss is a mean over its samples

    def obstacle(self, module: Module, node: ast.AST, note: str) -> None: ...


class _Probe:
    """Counts obstacles instead of reporting them."""

    def __init__(self, program: Program):
        self.program, self.local_loss, self.found = program, False, 0

    def obstacle(self, module: Module, node: ast.AST, note: str) -> None:
        self.found += 1


class Flow:
    """Follows one batch through the body of a loop.

    Kinds of values: `rows` (one per sample), `loss` (a plain mean over the samples), `figure` (a measurement).
    """

    def __init__(
        self,
        reader: Obstacles,
        module: Module,
        loop: BatchLoop | ast.FunctionDef,
        evaluation: bool = False,
        given: Given | None = None,
    ):
        self.reader, self.module, self.loop, self.evaluation = reader, module, loop, evaluation
        self.program = reader.program
        self.kinds: dict[str, str] = {}
        self.forwards = 0
        self.loss_text = ""
        self.figures: dict[str, str] = {}
        self.counting = ""
        self.uncountable = ""
        self.model_calls: list[Span] = []
        given = given or given_by(self.program, module, loop)
        self.targets = given.names
        self.fresh: set[str] = set(self.targets)  # names that this step has given a value
        self.again = False
        self.depth = 0  # of functions that take a batch apart
        for name in self.targets:
            self.kinds[name] = "rows"
        self.tensors, self.draws = given.tensors, given.draws

    def stop(self, node: ast.AST, note: str) -> None:
        self.reader.obstacle(self.module, node, note)

    # ------------------------------------------------------------ statements
    def follow(self) -> None:
        """Read the loop twice: in the second pass figures are known, and so is what one step leaves for the next."""
        self.read(self.loop.body)
        self.forwards, self.fresh, self.again = 0, set(self.targets), True
        self.model_calls.clear()
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
                self.kind(item.context_expr)
            self.read(node.body)
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
            if node_value(node) is not None and self.kind(node_value(node)) is not None:
                self.stop(node, "the loop is left with this process's own samples")
        else:
            self.stop(node, "this statement was not understood")

    def _mentions_figure(self, node: ast.AST) -> bool:
        """True when a condition reads a running figure, which covers this process's samples only."""
        return not self.evaluation and self._shows_figure(node)

    def _shows_figure(self, node: ast.AST) -> bool:
        return any(dotted(n) in self.figures for n in walk(node) if isinstance(n, ast.Name | ast.Attribute))

    def _assign(self, node: ast.Assign) -> None:
        self._check_random(node.value)
        if (
            len(node.targets) == 1
            and isinstance(node.targets[0], ast.Tuple)
            and isinstance(node.value, ast.Tuple)
            and len(node.targets[0].elts) == len(node.value.elts)
        ):
            kinds = [self.kind(value) for value in node.value.elts]
            for target, kind in zip(node.targets[0].elts, kinds, strict=True):
                self._bind(target, kind, node)
            return
        kind = self.kind(node.value)
        if kind == "loss" and isinstance(node.targets[0], ast.Name):
            self.loss_text = self.module.segment(node.value)
        for target in node.targets:
            self._bind(target, kind, node)
        if kind == "figure" and isinstance(node.targets[0], ast.Name) and node.targets[0].id in names_in(node.value):
            self._count(node.targets[0].id, node.value)

    def _bind(self, target: ast.AST, kind: str | None, node: ast.stmt) -> None:
        if isinstance(target, ast.Name):
            self.fresh.add(target.id)
            if kind is None:
                self.kinds.pop(target.id, None)
            else:
                self.kinds[target.id] = kind
        elif isinstance(target, ast.Tuple | ast.List):
            for element in target.elts:
                self._bind(element, kind, node)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, kind, node)
        elif kind is not None:
            if kind == "figure" and isinstance(target, ast.Attribute) and self.evaluation:
                self.uncountable = self.uncountable or "it keeps figures in attributes"
            elif kind == "figure" and isinstance(target, ast.Attribute):
                return
            else:
                self.stop(node, "what belongs to this batch is kept beyond it")
                self.uncountable = self.uncountable or "it keeps what belongs to a batch"

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
        self._count(name, node.value)
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

    def _count(self, name: str, value: ast.expr) -> None:
        """A counter: `sum` when counts are added, `mean` when means of batches are, else `other`."""
        self.counting = name
        kind = "sum" if self._adds_up(value) else "mean" if self._is_loss_figure(value) else "other"
        if self.figures.get(name, kind) != kind:
            kind = "other"
        self.figures[name] = kind
        if kind != "sum":
            self.uncountable = self.uncountable or f"what is added to {name} is not weighted by the number of samples"

    def _adds_up(self, value: ast.expr) -> bool:
        """True for sums and counts over samples, and for means multiplied by a number of samples."""
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
            return any(self._is_size(side) for side in (value.left, value.right))
        if self._is_size(value):
            return True
        text = self.module.segment(value).replace(" ", "")
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
                sides = [side for side in (inner.left, inner.right) if self.kind(side) is not None]
                return bool(sides) and all(self._is_loss_figure(side) or self._is_own_part(side) for side in sides)
            elif isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mult | ast.Div):
                tainted = [side for side in (inner.left, inner.right) if self.kind(side) is not None]
                if len(tainted) != 1 or (isinstance(inner.op, ast.Div) and tainted[0] is inner.right):
                    return False
                inner = tainted[0]
            else:
                return self.kind(inner) == "loss"

    def _is_own_part(self, node: ast.expr) -> bool:
        """`average * 0.8`: the figure itself, scaled."""
        factors = [n for n in walk(node) if isinstance(n, ast.Name) and self.kinds.get(n.id) is not None]
        only_products = all(isinstance(n.op, ast.Mult | ast.Div) for n in walk(node) if isinstance(n, ast.BinOp))
        return len(factors) == 1 and factors[0].id == self.counting and only_products

    def _is_size(self, node: ast.expr) -> bool:
        text = self.module.segment(node).replace(" ", "")
        if isinstance(node, ast.Name):
            return self.kinds.get(node.id) == "figure" and self._sized.get(node.id, False)
        return text.endswith((".size(0)", ".shape[0]", ".size()[0]")) or (
            isinstance(node, ast.Call)
            and dotted(node.func) == "len"
            and bool(node.args)
            and self.kind(node.args[0]) == "rows"
        )

    @property
    def _sized(self) -> dict[str, bool]:
        sized: dict[str, bool] = {}
        for node in walk(self.loop):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                text = self.module.segment(node.value).replace(" ", "")
                sized[node.targets[0].id] = text.endswith((".size(0)", ".shape[0]", ".size()[0]")) or (
                    text.startswith("len(") and text.endswith(")")
                )
        return sized

    def _expression_statement(self, node: ast.Expr) -> None:
        value = node.value
        self._check_random(value)
        if not isinstance(value, ast.Call):
            if self.kind(value) is not None:
                return
            return
        kinds = [self.kind(a) for a in [*value.args, *(k.value for k in value.keywords)]]
        method = value.func.attr if isinstance(value.func, ast.Attribute) else ""
        if self.evaluation and (
            dotted(value.func) == "print" or method in ("info", "write", "debug", "log", "display")
        ):
            shown = [a for a in [*value.args, *(k.value for k in value.keywords)] if self._shows_figure(a)]
            if shown:
                self.uncountable = self.uncountable or "it reports figures while it runs, which a share would change"
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
            self._meter(value, kinds)
            return
        name = dotted(value.func) or ""
        if name == "print" or method in _METER_METHODS - {"append", "add"}:
            return
        if method in ("append", "extend", "add") and receiver is None:
            if any(k in ("rows", "loss") for k in kinds) and not self.evaluation:
                self.stop(node, "outputs are collected over batches")
            self.uncountable = self.uncountable or "it collects outputs over batches"
            return
        if receiver in ("rows", "loss") and method.endswith("_") and all(k is None for k in kinds):
            return
        if name.rpartition(".")[2] in ("progress_bar",) or self._only_shows(name):
            return
        self.uncountable = self.uncountable or f"what {name or 'this call'} does with the batch was not recognised"
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

    def _meter(self, call: ast.Call, kinds: list[str | None]) -> None:
        assert isinstance(call.func, ast.Attribute)
        name = dotted(call.func.value)
        if name is None:
            self.uncountable = self.uncountable or "a figure has no name"
            return
        weighted = len(call.args) >= 2 and self._is_size(call.args[1])
        if not weighted and all(k is None for k in kinds):
            return
        if not weighted:
            self.uncountable = self.uncountable or f"{name} is not weighted by the number of samples"
        if not all(
            self._is_average_meter(value) for value in self.program.resolver.values(self.module, call.func.value)
        ):
            self.uncountable = self.uncountable or f"{name} is not an average of sum and count"
            self.figures[name] = "other"
            return
        self.figures[name] = "object"

    def _is_average_meter(self, value: Value) -> bool:
        if (
            not isinstance(value, Value)
            or value.kind != "instance"
            or not isinstance(value.node, ast.Call)
            or value.module is None
        ):
            return False
        found = self.program.resolver.definition(value.module.qualified(value.node.func), value.module)
        if found is None or not isinstance(found[1], ast.ClassDef):
            return False
        written = {n.attr for n in walk(found[1]) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
        return {"sum", "count", "avg"} <= written

    # ------------------------------------------------------------ expressions
    def kind(self, node: ast.AST | None) -> str | None:
        """rows, loss, figure or None (nothing of the batch in it)."""
        if node is None or isinstance(node, ast.Constant):
            return None
        if isinstance(node, ast.Name):
            return self.kinds.get(node.id)
        if isinstance(node, ast.Call):
            return self._call_kind(node)
        if isinstance(node, ast.Attribute):
            kind = self.kind(node.value)
            return (
                "figure"
                if kind == "rows" and node.attr in ("shape", "device", "dtype", "is_cuda")
                else "figure"
                if kind == "loss"
                else kind
            )
        if isinstance(node, ast.Subscript):
            kind = self.kind(node.value)
            if kind == "rows" and not isinstance(node.slice, ast.Constant):
                return "figure"
            if isinstance(node.value, ast.Name) and node.value.id in self.tensors and not self.evaluation:
                return "figure" if kind else None  # the first sample, not the first part of a batch
            if self.kind(node.slice) is not None:
                return "figure"
            return kind
        if isinstance(node, ast.BinOp):
            return self._binary_kind(node)
        if isinstance(node, ast.UnaryOp):
            kind = self.kind(node.operand)
            return kind if isinstance(node.op, ast.USub) else "figure" if kind else None
        if isinstance(node, ast.Tuple | ast.List):
            kinds = {self.kind(e) for e in node.elts} - {None}
            return None if not kinds else kinds.pop() if len(kinds) == 1 else "figure"
        if isinstance(node, ast.Dict):
            kinds = {self.kind(e) for e in node.values} - {None}
            return None if not kinds else kinds.pop() if len(kinds) == 1 else "figure"
        if isinstance(node, ast.Starred):
            return self.kind(node.value)
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp):
            return self._comprehension_kind(node)
        if isinstance(node, ast.IfExp):
            if self.kind(node.test) is not None:
                self.stop(node, "what happens next depends on this process's own samples")
            kinds = {self.kind(node.body), self.kind(node.orelse)} - {None}
            return None if not kinds else kinds.pop() if len(kinds) == 1 else "figure"
        inner = [self.kind(child) for child in ast.iter_child_nodes(node)]
        return "figure" if any(inner) else None

    def _comprehension_kind(self, node: ast.ListComp | ast.GeneratorExp | ast.DictComp) -> str | None:
        """`[t.to(device) for t in batch]` keeps rows."""
        generator = node.generators[0]
        if len(node.generators) > 1 or self.kind(generator.iter) is None:
            return "figure" if any(self.kind(g.iter) for g in node.generators) else None
        hidden = {name: self.kinds.get(name) for name in names_in(generator.target)}
        self.kinds.update(dict.fromkeys(hidden, self.kind(generator.iter) or "figure"))
        kind = self.kind(node.value if isinstance(node, ast.DictComp) else node.elt)
        for name, old in hidden.items():
            if old is None:
                self.kinds.pop(name, None)
            else:
                self.kinds[name] = old
        return kind if not generator.ifs else "figure"

    def _binary_kind(self, node: ast.BinOp) -> str | None:
        left, right = self.kind(node.left), self.kind(node.right)
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

    def _call_kind(self, node: ast.Call) -> str | None:
        if node in self.draws:
            return "rows"
        arguments = [*node.args, *(k.value for k in node.keywords)]
        kinds = [self.kind(a) for a in arguments]
        func = node.func
        is_read = isinstance(func, ast.Attribute) and func.attr in ("train", "eval", "state_dict", "zero_grad")
        model = None if is_read else model_called(self.program, self.module, node)
        if model is not None:
            self.forwards += 1
            self.model_calls.append(self.module.span(func))
            if not self.evaluation and is_past_wrapper(self.program, *model):
                self.stop(node, "the model is run past its wrapper")
            if any(k not in (None, "rows") for k in kinds):
                self.stop(node, "what the model is given is more than this batch's samples")
            carried = {n for a in arguments for n in names_in(a) if self.kinds.get(n) == "rows"} - self.fresh
            if self.again and carried:
                self.stop(node, f"{', '.join(sorted(carried))} comes from the step before")
            if not self.evaluation:
                for given, kind in zip(arguments, kinds, strict=True):
                    handed = model[1] is not func and self.program.is_wrapped(self.module, given)
                    if kind is None and not handed and not self._is_setting(given):
                        self.stop(
                            given, "the model is given more than the batch, which DataParallel shared out as well"
                        )
            if not any(kinds):
                self.stop(node, "the model is not given the batch")
            return "rows"
        if (
            isinstance(func, ast.Attribute)
            and func.attr == "forward"
            and self.program.is_wrapped(self.module, func.value)
        ):
            self.forwards += 1
            self.stop(node, "forward is called directly")
            return "rows"
        verdict = losses.judge(self.program, self.module, node)
        if any(kinds) and verdict is not None:
            if (verdict.plain or self.reader.local_loss) and all(k in (None, "rows") for k in kinds):
                return "loss"
            if not self.evaluation:
                self.stop(node, verdict.reason or "the loss compares more than samples with their targets")
            else:
                self.uncountable = self.uncountable or verdict.reason or "its loss is not a plain mean over samples"
            return "figure"
        receiver = self.kind(func.value) if isinstance(func, ast.Attribute) else None
        if receiver is None and not any(kinds):
            return None
        if isinstance(func, ast.Attribute) and receiver == "rows":
            if (
                func.attr in _ROWWISE
                and (not any(kinds) or self._keeps_size(node))
                and not (
                    func.attr in ("view", "reshape", "flatten", "transpose", "permute", "unsqueeze")
                    and self._mixes_rows(node)
                )
            ):
                return "rows" if func.attr not in ("argmax",) else "figure"
            return "figure"
        if isinstance(func, ast.Attribute) and receiver == "loss":
            return "loss" if func.attr in ("mean", "contiguous") and not any(kinds) else "figure"
        if dotted(func) in ("tuple", "list", "dict") and kinds == ["rows"]:
            return "rows"
        name = self.program.external(self.module, node)
        if name in ("torch.cat", "torch.concat") and kinds[0] == "rows" and not any(kinds[1:]):
            dim = argument(node, "dim", 1)
            return "rows" if isinstance(dim, ast.Constant) and dim.value in (1, 2, 3) else "figure"
        if name in _TAKES_OVER and kinds and kinds[0] == "rows":
            return "rows"
        if isinstance(func, ast.Attribute) and func.attr == "scale" and kinds == ["loss"]:
            return "loss"
        return "rows" if receiver is None and self._is_taken_apart(node, kinds) else "figure"

    def _is_taken_apart(self, node: ast.Call, kinds: list[str | None]) -> bool:
        """True where a function of the program's own only takes a batch apart, moves its parts and gives them back."""
        callee = self.program.resolver.callee(self.module, node)
        if (
            callee is None
            or not isinstance(callee[1], ast.FunctionDef)
            or set(kinds) - {None, "rows"}
            or self.depth > 2
        ):
            return False
        module, function = callee[0], callee[1]
        body = [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
        last = body[-1] if body else None
        plain = all(isinstance(s, ast.Assign) and _binds_names(s) for s in body[:-1]) and not function.decorator_list
        if not plain or not isinstance(last, ast.Return) or last.value is None or has_unpacking(node):
            return False
        if any(isinstance(n, ast.Attribute) and n.attr in NO_TENSORS for n in walk(function)):
            return False
        names = [a.arg for a in function.args.args][1 if module.scopes[function].self_name is not None else 0 :]
        given = {name for i, name in enumerate(names) if self.kind(argument(node, name, i)) == "rows"}
        inside = Flow(_Probe(self.program), module, function, given=Given(given, set()))
        inside.depth = self.depth + 1
        inside.read(body[:-1])
        parts = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]
        rows = all(inside.kind(part) == "rows" for part in parts)
        return rows and not inside.forwards and isinstance(inside.reader, _Probe) and not inside.reader.found

    def _is_setting(self, node: ast.expr) -> bool:
        """True for numbers, words and the like: what DataParallel gave to every replica as it was."""
        if isinstance(node, ast.Constant | ast.Compare | ast.JoinedStr):
            return True
        if isinstance(node, ast.BinOp):
            return self._is_setting(node.left) and self._is_setting(node.right)
        if isinstance(node, ast.UnaryOp):
            return self._is_setting(node.operand)
        if isinstance(node, ast.Call):
            return dotted(node.func) in ("len", "int", "float", "str", "bool", "min", "max", "range")
        name = dotted(node) or ""
        if re.match(r"(self\.)?(args?|opts?|cfg|config|conf|hparams|params|flags|settings)\b", name, re.IGNORECASE):
            return True
        found = self.module.lookup(name, self.module.scope_of.get(node, self.module.scope)) if name else None
        if found is not None and all(b.kind in ("item", "augment") for b in found[1]):
            counters = [dotted(b.value.func) for b in found[1] if isinstance(b.value, ast.Call)]
            return all(c in ("range", "enumerate", "trange") for c in counters) and bool(counters)
        values = self.program.resolver.values(self.module, node)
        return bool(values) and all(v.kind in ("constant", "function", "class") for v in values)

    def _mixes_rows(self, node: ast.Call) -> bool:
        """`view(-1, …)` of a tensor keeps samples together; another leading size may not."""
        if (
            isinstance(node.func, ast.Attribute)
            and node.func.attr in ("view", "reshape")
            and not self._keeps_size(node)
        ):
            sizes = node.args[0].elts if node.args and isinstance(node.args[0], ast.Tuple | ast.List) else node.args
            return bool(sizes) and self.module.segment(sizes[0]).replace(" ", "") != "-1"
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("transpose", "permute", "unsqueeze"):
            sizes = node.args[0].elts if node.args and isinstance(node.args[0], ast.Tuple | ast.List) else node.args
            moved = [
                s.value if isinstance(s, ast.Constant) else 0
                for s in sizes[: 2 if node.func.attr == "transpose" else 1]
            ]
            return not moved or (moved[0] != 0 if node.func.attr == "permute" else 0 in moved)
        return False

    def _keeps_size(self, node: ast.Call) -> bool:
        """`x.view(x.size(0), -1)`: the leading size is the number of samples."""
        return (
            isinstance(node.func, ast.Attribute)
            and node.func.attr in ("view", "reshape")
            and bool(node.args)
            and self._is_size(node.args[0])
            and not any(self.kind(a) for a in node.args[1:])
        )

    def _check_random(self, node: ast.AST) -> None:
        if not self.evaluation and draws_random(self.program, self.module, node):
            self.stop(node, "random numbers are drawn for the whole batch")


def _binds_names(node: ast.Assign) -> bool:
    """True for an assignment to plain names."""
    parts = [p for t in node.targets for p in (t.elts if isinstance(t, ast.Tuple | ast.List) else [t])]
    return all(isinstance(part, ast.Name) for part in parts)


def node_value(node: ast.Return | ast.Raise) -> ast.expr | None:
    return node.value if isinstance(node, ast.Return) else None


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in (0, 0.0)
