"""What the names and expressions of a step hold of one batch.

In: a loop, or a function that makes a step, and the program.  Out: kinds of values: `rows` (one per sample), `loss` (a plain mean over
the samples), `figure` (a measurement); and obstacles, with their places, where a batch is given to more than one plain call of the
model, or compared by more than a plain mean.
"""

from __future__ import annotations

import ast
from functools import cached_property

from migrator.facts.evaluation.evaluated import only_evaluates
from migrator.facts.loaders.batch_loops import BatchLoop
from migrator.facts.python.nodes import argument, dotted, has_unpacking, names_in, walk
from migrator.facts.python.syntax import Module, Span
from migrator.facts.randomness.random_draws import draws_random
from migrator.facts.steps import losses
from migrator.facts.steps.given import Given, given_by
from migrator.facts.steps.model_calls import model_called
from migrator.facts.steps.model_settings import is_setting
from migrator.facts.steps.obstacles import ObstacleCount, Obstacles
from migrator.facts.steps.output_names import OutputNames
from migrator.facts.steps.row_methods import NO_TENSORS, ROWWISE, TAKES_OVER, mixes_rows
from migrator.facts.steps.value_kinds import binary_kind, one_kind
from migrator.facts.steps.whole_draws import is_drawn_once
from migrator.facts.wraps.past_wrapper import is_past_wrapper


class BatchValues:
    """What is known of a batch while a step is read, statement by statement."""

    def __init__(
        self,
        reader: Obstacles,
        module: Module,
        loop: BatchLoop | ast.FunctionDef,
        evaluation: bool = False,
        given: Given | None = None,
        depth: int = 0,  # of functions that take a batch apart
    ):
        self.reader, self.module, self.loop, self.evaluation, self.depth = reader, module, loop, evaluation, depth
        self.program = reader.program
        given = given or given_by(self.program, module, loop)
        self.targets, self.tensors, self.draws = given.names, given.tensors, given.draws
        self.kinds: dict[str, str] = dict.fromkeys(self.targets, "rows")
        self.forwards = 0
        self.model_calls: list[Span] = []
        self.uncountable = ""  # the first reason why figures of shares cannot be put together
        self.fresh: set[str] = set(self.targets)  # names that this step has given a value
        self.asks_rank_zero = False  # for what the step draws once: then it is in `drawn_once`, and no obstacle
        self.drawn_once: dict[Span, ast.expr] = {}
        self.outputs = OutputNames(self.program, module)
        self.again = False  # read for the second time: what one step leaves for the next is known

    def stop(self, node: ast.AST, note: str) -> None:
        """Report an obstacle."""
        self.reader.obstacle(self.module, node, note)

    def doubt(self, note: str) -> None:
        """Note why figures cannot be put together, if nothing else says so yet."""
        self.uncountable = self.uncountable or note

    def begin_again(self) -> None:
        """Read the next step, with what this one has left."""
        self.forwards, self.fresh, self.again = 0, set(self.targets), True
        self.model_calls.clear()
        self.kinds |= dict.fromkeys(self.targets, "rows")  # whatever their names held at the end of this one

    # ------------------------------------------------------------ names
    def assign(self, node: ast.Assign) -> str | None:
        """Give the names what they hold from here on; the kind of the value, where it is one."""
        if (
            self.asks_rank_zero
            and is_drawn_once(self.program, self.module, node.value)
            and self.kind(node.value)
            is None  # asked for last: each look at a value counts the calls of the model in it
        ):
            self.drawn_once[self.module.span(node.value)] = node.value
        else:
            self._check_random(node.value)
        target = node.targets[0]
        if (
            len(node.targets) == 1
            and isinstance(target, ast.Tuple)
            and isinstance(node.value, ast.Tuple)
            and len(target.elts) == len(node.value.elts)
        ):
            kinds = [self.kind(value) for value in node.value.elts]
            for element, kind in zip(target.elts, kinds, strict=True):
                self._bind(element, kind, node)
            return None
        kind = self.kind(node.value)
        for target in node.targets:
            self._bind(target, kind, node)
            self.outputs.bind(target, node.value)
        return kind

    def _bind(self, target: ast.AST, kind: str | None, node: ast.stmt) -> None:
        """Give a target what it holds from here on."""
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
        elif isinstance(target, ast.Subscript) and kind == "rows" and self._is_made_here(target.value):
            self.kinds[dotted(target.value) or ""] = "rows"
        elif kind is not None:
            if kind == "figure" and isinstance(target, ast.Attribute) and self.evaluation:
                self.doubt("it keeps figures in attributes")
            elif kind == "figure" and isinstance(target, ast.Attribute):
                return
            else:
                self.stop(node, "what belongs to this batch is kept beyond it")
                self.doubt("it keeps what belongs to a batch")

    def _is_made_here(self, node: ast.expr) -> bool:
        """True for a dictionary of this step, which parts of the batch are put into."""
        return isinstance(node, ast.Name) and node.id in self.fresh and self.kinds.get(node.id) in (None, "rows")

    def _check_random(self, node: ast.AST) -> None:
        """Each process would draw for its own share only."""
        if not self.evaluation and draws_random(self.program, self.module, node):
            if not (
                isinstance(node, ast.Call)
                and self.kind(node) is None
                and only_evaluates(self.program, self.module, node)
            ):
                self.stop(node, "random numbers are drawn for the whole batch")

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
            return binary_kind(node, self.kind(node.left), self.kind(node.right))
        if isinstance(node, ast.UnaryOp):
            kind = self.kind(node.operand)
            return kind if isinstance(node.op, ast.USub) else "figure" if kind else None
        if isinstance(node, ast.Tuple | ast.List):
            return one_kind(self.kind(e) for e in node.elts)
        if isinstance(node, ast.Dict):
            return one_kind(self.kind(e) for e in node.values)
        if isinstance(node, ast.Starred):
            return self.kind(node.value)
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp):
            return self._comprehension_kind(node)
        if isinstance(node, ast.IfExp):
            if self.kind(node.test) is not None:
                self.stop(node, "what happens next depends on this process's own samples")
            return one_kind((self.kind(node.body), self.kind(node.orelse)))
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

    # ------------------------------------------------------------ calls
    def _call_kind(self, node: ast.Call) -> str | None:
        if node in self.draws:
            return "rows"
        kinds = [self.kind(a) for a in [*node.args, *(k.value for k in node.keywords)]]
        func = node.func
        is_read = isinstance(func, ast.Attribute) and func.attr in ("train", "eval", "state_dict", "zero_grad")
        model = None if is_read else model_called(self.program, self.module, node)
        if model is not None:
            self._call_model(node, model, kinds)
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
            return self._loss_kind(node, verdict, kinds)
        receiver = self.kind(func.value) if isinstance(func, ast.Attribute) else None
        if receiver is None and not any(kinds):
            return None
        if isinstance(func, ast.Attribute) and receiver == "rows" and func.attr == "mean" and not kinds:
            return "loss" if self.outputs.holds(func.value) else "figure"  # over devices, or over samples
        if isinstance(func, ast.Attribute) and receiver == "rows":
            return self._method_kind(node, func.attr, kinds)
        if isinstance(func, ast.Attribute) and receiver == "loss":
            return "loss" if func.attr in ("mean", "contiguous") and not any(kinds) else "figure"
        if dotted(func) in ("tuple", "list", "dict") and kinds == ["rows"]:
            return "rows"
        name = self.program.external(self.module, node)
        if name in ("torch.cat", "torch.concat") and kinds[0] == "rows" and not any(kinds[1:]):
            dim = argument(node, "dim", 1)
            return "rows" if isinstance(dim, ast.Constant) and dim.value in (1, 2, 3) else "figure"
        if name == "torch.mean" and kinds == ["rows"] and self.outputs.holds(node.args[0]):
            return "loss"
        if name in TAKES_OVER and kinds and kinds[0] == "rows":
            return "rows"
        if isinstance(func, ast.Attribute) and func.attr == "scale" and kinds == ["loss"]:
            return "loss"
        return "rows" if receiver is None and self._is_taken_apart(node, kinds) else "figure"

    def _call_model(self, node: ast.Call, model: tuple[Module, ast.expr], kinds: list[str | None]) -> None:
        """A call of the model, which is to be given this batch's samples and nothing else."""
        arguments = [*node.args, *(k.value for k in node.keywords)]
        self.forwards += 1
        self.model_calls.append(self.module.span(node.func))
        if not self.evaluation and is_past_wrapper(self.program, *model):
            self.stop(node, "the model is run past its wrapper")
        if any(k not in (None, "rows") for k in kinds):
            self.stop(node, "what the model is given is more than this batch's samples")
        carried = {n for a in arguments for n in names_in(a) if self.kinds.get(n) == "rows"} - self.fresh
        if self.again and carried:
            self.stop(node, f"{', '.join(sorted(carried))} comes from the step before")
        if not self.evaluation:
            for given, kind in zip(arguments, kinds, strict=True):
                handed = model[1] is not node.func and self.program.is_wrapped(self.module, given)
                if kind is None and not handed and not is_setting(self.program, self.module, given):
                    self.stop(given, "the model is given more than the batch, which DataParallel shared out as well")
        if not any(kinds):
            self.stop(node, "the model is not given the batch")

    def _loss_kind(self, node: ast.Call, verdict: losses.LossVerdict, kinds: list[str | None]) -> str:
        """A loss is a plain mean over the samples, or something that only measures."""
        if (verdict.plain or self.reader.local_loss) and all(k in (None, "rows") for k in kinds):
            return "loss"
        if not self.evaluation:
            self.stop(node, verdict.reason or "the loss compares more than samples with their targets")
        else:
            self.doubt(verdict.reason or "its loss is not a plain mean over samples")
        return "figure"

    def _method_kind(self, node: ast.Call, name: str, kinds: list[str | None]) -> str:
        """What a method of a batch gives."""
        keeps_size = self._keeps_size(node)
        if name not in ROWWISE or (any(kinds) and not keeps_size) or mixes_rows(self.module, node, keeps_size):
            return "figure"
        return "rows" if name != "argmax" else "figure"

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
        probe = ObstacleCount(self.program)
        inside = BatchValues(probe, module, function, given=Given(given, set()), depth=self.depth + 1)
        for statement in body[:-1]:
            if isinstance(statement, ast.Assign):
                inside.assign(statement)
        parts = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]
        rows = all(inside.kind(part) == "rows" for part in parts)
        return rows and not inside.forwards and not probe.found

    # ------------------------------------------------------------ sizes
    def _keeps_size(self, node: ast.Call) -> bool:
        """`x.view(x.size(0), -1)`: the leading size is the number of samples."""
        return (
            isinstance(node.func, ast.Attribute)
            and node.func.attr in ("view", "reshape")
            and bool(node.args)
            and self.is_size(node.args[0])
            and not any(self.kind(a) for a in node.args[1:])
        )

    def is_size(self, node: ast.expr) -> bool:
        """True for the number of samples of a batch."""
        text = self.module.segment(node).replace(" ", "")
        if isinstance(node, ast.Name):
            return self.kinds.get(node.id) == "figure" and self._sized.get(node.id, False)
        return text.endswith((".size(0)", ".shape[0]", ".size()[0]")) or (
            isinstance(node, ast.Call)
            and dotted(node.func) == "len"
            and bool(node.args)
            and self.kind(node.args[0]) == "rows"
        )

    @cached_property
    def _sized(self) -> dict[str, bool]:
        sized: dict[str, bool] = {}
        for node in walk(self.loop):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                text = self.module.segment(node.value).replace(" ", "")
                sized[node.targets[0].id] = text.endswith((".size(0)", ".shape[0]", ".size()[0]")) or (
                    text.startswith("len(") and text.endswith(")")
                )
        return sized


def _binds_names(node: ast.Assign) -> bool:
    """True for an assignment to plain names."""
    parts = [p for t in node.targets for p in (t.elts if isinstance(t, ast.Tuple | ast.List) else [t])]
    return all(isinstance(part, ast.Name) for part in parts)
