"""Where the shares of a batch must be put together so that everything behind the model sees the whole batch.

In: a training loop with one call of each wrapped model.  Out: the `WholeBatch` places, and obstacles to whatever reader asked.
Up to the call each process works on its own rows, sample by sample; from the call on, outputs and targets hold the rows of
all processes, in order, and the loop goes on as the original's did: no loss, figure or decision needs to be understood.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from migrator.facts.loaders.batch_loops import BatchLoop
from migrator.facts.python.syntax import Module, Span
from migrator.facts.randomness.random_draws import draws_random
from migrator.facts.steps.batch_names import BatchNames, Use
from migrator.facts.steps.flow import Flow
from migrator.facts.steps.given import Given, given_by
from migrator.facts.steps.model_calls_of_step import (
    branch_before,
    calling_statement,
    model_calls,
    names_in_arguments,
    statements_before,
)
from migrator.facts.steps.obstacles import Obstacles
from migrator.facts.steps.step_functions import Step, handed, seen_from_functions
from migrator.facts.steps.whole_checks import check_behind, check_late, check_trained


@dataclass(frozen=True, slots=True)
class WholeBatch:
    """Edits in words: what is put together, and where.

    `call` is the first call of a model, `statement` that of the last; `inline` are the calls, and other expressions in their
    statements or behind them; `before` are names with the statement in front of which they become whole; `after` are names
    that become whole behind `statement`; `sizes` are expressions that only ask for the number of samples, with what says
    the same of the whole batch.
    """

    call: Span
    statement: Span
    inline: tuple[Span, ...]
    before: tuple[tuple[Span, str], ...]
    after: tuple[str, ...]
    sizes: tuple[tuple[Span, str], ...]


def whole_batch(reader: Obstacles, module: Module, loop: BatchLoop, step: Step | None = None) -> WholeBatch | None:
    """Read a training loop, or the function that it calls for each batch.

    None when the model's call is not where its outputs can be put together.
    """
    if step is None:
        return _Reader(reader, module, loop, given_by(reader.program, module, loop)).read()
    given = handed(reader, module, loop, step)
    return _Reader(reader, step.module, step.function, given).read() if given is not None else None


class _Reader:
    """Reads one step."""

    def __init__(self, reader: Obstacles, module: Module, loop: BatchLoop | ast.FunctionDef, given: Given):
        self.module, self.loop = module, loop
        self.program = reader.program
        self.flow = Flow(reader, module, loop, given=given)
        self.names = BatchNames(self.flow)

    def read(self) -> WholeBatch | None:
        calls = model_calls(self.flow)
        anchor = calling_statement(self.flow, calls) if calls else None
        before = statements_before(self.flow, anchor) if anchor is not None else None
        if anchor is None or before is None:
            return None
        check_trained(self.flow, [*before, *calls])
        for call in calls:
            for earlier in [*before, *branch_before(self.module, anchor, call)]:
                if not self._changes_figure(earlier):
                    self.flow.read([earlier])
                self.names.note(earlier)
            before = []
            branches = [n for n in ast.walk(anchor) if isinstance(n, ast.If) and call in set(ast.walk(n))]
            self.names.early += [use for branch in branches for use in self.names.uses(branch.test)]
            self.flow.kind(call)
        check_late(self.flow, anchor)
        if not isinstance(self.loop, ast.FunctionDef):
            for node in seen_from_functions(self.module, self.loop, set(self.names.sources)):
                self.flow.stop(node, f"{node.id} is looked at in a function that is not given it")
        given = self.names.ancestors(
            {name for call in calls for name in names_in_arguments(call)} & set(self.flow.kinds)
        )
        late = [use for use in self.names.uses(self.loop) if self._is_late(use, calls)]
        return self._place(calls, anchor, given, late)

    def _changes_figure(self, node: ast.stmt) -> bool:
        """`mask.detach_()`, where the mask was made of targets: they are whole by then, and the model is given no such thing."""
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
            return False
        func = node.value.func
        name = func.value.id if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) else ""
        if self.flow.kinds.get(name) != "figure" or name in self.flow.figures:
            return False
        return not draws_random(self.program, self.module, node)

    def _is_late(self, use: Use, calls: list[ast.Call]) -> bool:
        place = self.module.span(use.node)
        behind = place.start >= self.module.span(self.module.statement(calls[0])).start
        return behind and not any(self.module.span(call).contains(place) for call in calls)

    # ---------------------------------------------------------------- what is put together, and where
    def _place(self, calls: list[ast.Call], statement: ast.stmt, given: set[str], late: list[Use]) -> WholeBatch:
        statements = [self.module.statement(call) for call in calls]
        uses = [*self.names.early, *late]
        for use in uses:
            if use.name not in given and self.names.is_outlived(use.name, given):
                self.flow.stop(use.node, f"{use.name} is made of what has another value by then")
        roots = dict.fromkeys(
            root for use in uses if use.name not in given for root in self.names.roots(use.name, given)
        )
        places = {root: self.names.first_use(root, statement) for root in roots}
        inline, after, sizes = [self.module.span(call) for call in calls], dict[str, None](), list[tuple[Span, str]]()
        parts: list[Use] = []
        other = next((root for root in roots if self.names.is_tensor(root)), None)
        taken = {self.module.segment(u.node) for call in calls for u in self.names.uses(call)}
        for use in uses:
            if use.name not in given or self.names.asks_of_each(use):
                continue
            text = self.module.segment(use.node)
            if (
                other is not None
                and self.names.asks_size(use)
                and self.names.is_whole_before(other, places, use.statement)
            ):
                sizes.append((self.module.span(use.node), text.replace(use.name, other, 1)))
            elif use in self.names.early:
                self.flow.stop(use.node, f"{text} is looked at before the model is called")
            elif use.statement in statements:
                inline.append(self.module.span(use.node))
            elif text not in taken and self._is_straight(use, statement) and not self.names.is_replaced(use):
                parts.append(use)
            elif isinstance(statement, ast.If):
                self.flow.stop(use.node, f"{text} is looked at behind the branches that call the model")
            else:
                after[use.name] = None
        inline += [self.module.span(use.node) for use in parts if use.name not in after]
        for name in self.names.no_tensors & {*places, *after}:
            self.flow.stop(statement, f"{name} is no tensor that could be put together")
        whole = {
            name
            for name in self.names.sources
            if name not in given and set(self.names.roots(name, given)) <= set(places)
        }
        check_behind(self.flow, set(self.names.sources) - set(after) - whole)
        return WholeBatch(
            self.module.span(calls[0]),
            self.module.span(statements[-1]),
            tuple(dict.fromkeys(inline)),
            tuple((self.module.span(place), root) for root, place in places.items()),
            tuple(after),
            tuple(dict.fromkeys(sizes)),
        )

    def _is_straight(self, use: Use, statement: ast.stmt) -> bool:
        """True for a part of a batch in an assignment beside the call: no process passes it by, as it may an effect."""
        beside = use.statement in self.module.block(statement)
        return isinstance(use.node, ast.Subscript) and beside and isinstance(use.statement, ast.Assign | ast.AugAssign)
