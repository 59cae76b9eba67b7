"""Where the shares of a batch must be put together so that everything behind the model sees the whole batch.

In: a training loop with one call of each wrapped model.  Out: the `WholeBatch` places, and obstacles to whatever reader asked.
Up to the call each process works on its own rows, sample by sample; from the call on, outputs and targets hold the rows of
all processes, in order, and the loop goes on as the original's did: no loss, figure or decision needs to be understood.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from migrator.facts.batch_loops import BatchLoop
from migrator.facts.flow import Flow
from migrator.facts.given import Given, given_by
from migrator.facts.left_over import read_behind
from migrator.facts.model_calls import model_called
from migrator.facts.obstacles import Obstacles
from migrator.facts.parameters import is_parameter
from migrator.facts.past_wrapper import is_past_wrapper
from migrator.facts.random_draws import draws_random
from migrator.facts.row_methods import NO_TENSORS
from migrator.facts.statistics import may_keep_statistics
from migrator.facts.syntax import Module, Span, argument, dotted, has_unpacking, names_in

_OTHER_SIZE = re.compile(r"\.(shape\[[1-9]\d*\]|size\([1-9]\d*\))$")
_IN_COMMON = frozenset(["dtype", "device", "ndim", "dim", "is_cuda", "is_floating_point"])
_READS = frozenset(["train", "eval", "state_dict", "zero_grad", "parameters", "named_parameters", "load_state_dict"])


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


@dataclass(frozen=True, slots=True)
class Step:
    """A function that makes one step, and its one call in the loop over the loader."""

    module: Module
    function: ast.FunctionDef
    call: ast.Call
    is_method: bool


@dataclass(frozen=True, slots=True)
class _Use:
    """One read of a batch's name: the longest chain of attributes and constant subscripts from it, and its statement."""

    name: str
    node: ast.expr
    statement: ast.stmt


def whole_batch(reader: Obstacles, module: Module, loop: BatchLoop, step: Step | None = None) -> WholeBatch | None:
    """Read a training loop, or the function that it calls for each batch.

    None when the model's call is not where its outputs can be put together.
    """
    if step is None:
        return _Reader(reader, module, loop, given_by(reader.program, module, loop)).read()
    given = _handed(reader, module, loop, step)
    return _Reader(reader, step.module, step.function, given).read() if given is not None else None


def _handed(reader: Obstacles, module: Module, loop: BatchLoop, step: Step) -> Given | None:
    """The parameters of a step function that hold the batch; the loop itself must not look at it further."""
    flow = Flow(reader, module, loop)
    statement = module.statement(step.call)
    if module.parents[statement] is not loop:
        flow.stop(step.call, "the step is not made for every batch")
        return None
    flow.read(loop.body[: loop.body.index(statement)])
    names = [a.arg for a in step.function.args.args][1 if step.is_method else 0 :]
    kinds = {}
    for i, name in enumerate(names):
        value = argument(step.call, name, i)
        if value is not None and flow.kind(value) is not None:
            kinds[name] = flow.kind(value), isinstance(value, ast.Name) and value.id in flow.tensors
    if has_unpacking(step.call) or any(kind != "rows" for kind, _ in kinds.values()):
        flow.stop(step.call, "what the step is given was not understood")
        return None
    start, made = module.span(statement).start, module.span(step.call)
    late = [
        n
        for n in ast.walk(loop)
        if isinstance(n, ast.Name) and flow.kinds.get(n.id) and isinstance(n.ctx, ast.Load)
        if module.span(n).start >= start and not made.contains(module.span(n))
    ]
    late += [n for n in _seen_from_functions(module, loop, set(flow.kinds))]
    if late:
        flow.stop(late[0], f"{late[0].id} is looked at outside of the step")
        return None
    kept = [*flow.figures, *(name for name in flow.kinds if read_behind(module, loop, name))]
    if kept:
        flow.stop(step.call, f"{kept[0]} would cover this process's share only")
        return None
    return Given(set(kinds), {name for name, (_, is_tensor) in kinds.items() if is_tensor})


def _seen_from_functions(module: Module, loop: BatchLoop, names: set[str]) -> Iterator[ast.Name]:
    """Reads of a loop's names in functions that are made outside of it."""
    scope, place = module.scope_of.get(loop, module.scope), module.span(loop)
    for node in module.nodes:
        if isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load):
            function = module.enclosing(node, ast.FunctionDef, ast.Lambda)
            if function is None or function is module.enclosing(loop, ast.FunctionDef, ast.Lambda):
                continue
            found = module.lookup(node.id, module.scope_of.get(node, module.scope))
            if found is not None and found[0] is scope and not place.contains(module.span(node)):
                yield node


class _Reader:
    def __init__(self, reader: Obstacles, module: Module, loop: BatchLoop | ast.FunctionDef, given: Given):
        self.reader, self.module, self.loop = reader, module, loop
        self.program = reader.program
        self.flow = Flow(reader, module, loop, given=given)
        self.sources: dict[str, set[str]] = {name: set() for name in self.flow.targets}
        self.early: list[_Use] = []
        self.redefined: dict[str, list[ast.stmt]] = {}
        self.no_tensors: set[str] = set()

    def read(self) -> WholeBatch | None:
        calls = self._calls()
        anchor = self._anchor(calls) if calls else None
        before = self._statements_before(anchor) if anchor is not None else None
        if anchor is None or before is None:
            return None
        self._check_trained([*before, *calls])
        for call in calls:
            for earlier in [*before, *self._branch_before(anchor, call)]:
                if not self._changes_figure(earlier):
                    self.flow.read([earlier])
                self._note(earlier)
            before = []
            branches = [n for n in ast.walk(anchor) if isinstance(n, ast.If) and call in set(ast.walk(n))]
            self.early += [use for branch in branches for use in self._uses(branch.test)]
            self.flow.kind(call)
        self._check_late(anchor)
        if not isinstance(self.loop, ast.FunctionDef):
            for node in _seen_from_functions(self.module, self.loop, set(self.sources)):
                self.flow.stop(node, f"{node.id} is looked at in a function that is not given it")
        given = self._ancestors({name for call in calls for name in names_in_arguments(call)} & set(self.flow.kinds))
        late = [use for use in self._uses(self.loop) if self._is_late(use, calls)]
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

    # ---------------------------------------------------------------- the call and what stands before it
    def _calls(self) -> list[ast.Call]:
        """The calls of wrapped models in a step, in simple statements."""
        calls = [n for n in ast.walk(self.loop) if isinstance(n, ast.Call) and self._is_forward(n)]
        calls.sort(key=lambda call: self.module.span(call).start)
        statements = [self.module.statement(call) for call in calls]
        if not calls or not all(isinstance(s, ast.Assign | ast.AugAssign | ast.Expr) for s in statements):
            self.flow.stop(self.loop, "the model's call was not found")
            return []
        models = [(call, model_called(self.program, self.module, call)) for call in calls]
        past = [call for call, model in models if model is not None and is_past_wrapper(self.program, *model)]
        if past:
            self.flow.stop(past[0], "the model is run past its wrapper")
            return []
        return calls

    def _anchor(self, calls: list[ast.Call]) -> ast.stmt | None:
        """The first of the calls' statements, or the `if` of which each branch has one call."""
        statements = [self.module.statement(call) for call in calls]
        block = self.module.block(statements[0])
        if all(statement in block for statement in statements):
            between = block[block.index(statements[0]) : block.index(statements[-1])]
            touched = {use.name for s in between if s not in statements for use in self._uses(s)}
            made = {
                n.id for s in between for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            }
            inner = [n for call in calls for n in ast.walk(call) if n in calls and n is not call]
            if inner or any(made & names_in_arguments(call) for call in calls[1:]):
                self.flow.stop(calls[-1], "a model is given the outputs of another")
                return None
            if not touched:
                models = [self.module.segment(call.func) for call in calls]
                if len(set(models)) < len(models) and may_keep_statistics(self.program):
                    self.flow.stop(calls[-1], "the model's statistics would change between two calls in one step")
                    return None
                return statements[0]
        for ancestor in self.module.ancestors(calls[0]):
            if ancestor is self.loop:
                break
            if (
                isinstance(ancestor, ast.If)
                and len(calls) > 1
                and self._has_one_in_each(ancestor, statements) == len(calls)
            ):
                return ancestor
        self.flow.stop(calls[-1], "the model is called more than once in a step")
        return None

    def _has_one_in_each(self, node: ast.If, statements: list[ast.stmt]) -> int:
        """The number of calls in the branches of an `if`, or nothing where a branch has none or several."""
        found = 0
        for block in filter(None, (node.body, node.orelse)):  # without an `else`, all processes make no call alike
            if len(block) == 1 and isinstance(block[0], ast.If):
                inner = self._has_one_in_each(block[0], statements)
            else:
                inner = sum(statement in block for statement in statements)
                inner = inner if inner == 1 else 0
            if not inner:
                return 0
            found += inner
        return found

    def _branch_before(self, anchor: ast.stmt, call: ast.Call) -> list[ast.stmt]:
        """What a branch does before its call."""
        statement = self.module.statement(call)
        if not isinstance(anchor, ast.If):
            return []
        block = self.module.block(statement)
        return block[: block.index(statement)]

    def _is_forward(self, call: ast.Call) -> bool:
        """A call of the wrapped model, or of its `forward`, which exchanges gradients just the same."""
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr == "forward":
            func = func.value
        elif isinstance(func, ast.Attribute) and func.attr in _READS:
            return False
        return self.program.is_wrapped(self.module, func) or model_called(self.program, self.module, call) is not None

    def _statements_before(self, statement: ast.stmt) -> list[ast.stmt] | None:
        """Everything that a step does before the call's statement, which must be run in every step."""
        found: list[ast.stmt] = []
        current: ast.stmt = statement
        while True:
            block = self.module.block(current)
            found = [*block[: block.index(current)], *found]
            parent = self.module.parents[current]
            if parent is self.loop:
                return found
            if not isinstance(parent, ast.With):
                self.flow.stop(statement, "the model is not called in every step")
                return None
            current = parent

    def _note(self, statement: ast.stmt) -> None:
        """Which names the rows go to, and reads that are more than handing rows on."""
        for node in ast.walk(statement):
            if not isinstance(node, ast.stmt):
                continue
            given = _plain_values(node)
            if given and all(self.flow.kinds.get(target) == "rows" for target in given):
                for target, value in given.items():
                    if any(isinstance(n, ast.Attribute) and n.attr in NO_TENSORS for n in ast.walk(value)):
                        self.no_tensors.add(target)
                    origin = names_in(value) & set(self.sources)
                    self.redefined.setdefault(target, []).append(node)
                    self.sources[target] = self.sources.get(target, set()) | (origin - {target})
            elif not isinstance(node, ast.If | ast.With | ast.For | ast.While):
                self.early += self._uses(node)
            elif isinstance(node, ast.If | ast.While):
                self.early += [u for u in self._uses(node.test)]
            elif isinstance(node, ast.For):
                self.early += self._uses(node.iter)
            elif isinstance(node, ast.With):
                self.early += [u for item in node.items for u in self._uses(item.context_expr)]

    def _check_trained(self, nodes: list[ast.AST]) -> None:
        """What is trained outside of the models must not meet the rows before they are whole."""
        for node in nodes:
            for inner in ast.walk(node):
                if is_parameter(self.program, self.module, inner):
                    self.flow.stop(inner, f"{self.module.segment(inner)} is trained and used before the model")

    def _check_late(self, statement: ast.stmt) -> None:
        """Behind the call all processes do the same with the same numbers, unless they draw their own."""
        start = self.module.span(statement).start
        for node in ast.walk(self.loop):
            if isinstance(node, ast.Call) and self.module.span(node).start >= start:
                if draws_random(self.program, self.module, node) or self._criterion_draws(node):
                    self.flow.stop(node, "random numbers are drawn for the whole batch")

    def _criterion_draws(self, call: ast.Call) -> bool:
        """A loss or a module beside the model that draws, or drops out, would do so on each process in its own way."""
        if self.program.is_wrapped(self.module, call.func):
            return False
        values = self.program.resolver.values(self.module, call.func)
        return any(
            isinstance(value.node, ast.Call) and value.module is not None and self._drops_out(value.module, value.node)
            for value in values
            if value.kind in ("instance", "call")
        )

    def _drops_out(self, module: Module, made: ast.AST, depth: int = 3) -> bool:
        """True when a module that is made here, or one inside it, draws random numbers."""
        for call in ast.walk(made):
            if not isinstance(call, ast.Call):
                continue
            name = self.program.external(module, call)
            if name.startswith("torch.nn.") and ("ropout" in name or "Transformer" in name):
                return True
            found = self.program.resolver.definition(module.qualified(call.func), module)
            if found is None or not isinstance(found[1], ast.ClassDef) or not depth:
                continue
            if draws_random(self.program, *found) or self._drops_out(*found, depth - 1):
                return True
        return False

    # ---------------------------------------------------------------- uses
    def _uses(self, tree: ast.AST) -> list[_Use]:
        found = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in self.sources:
                found.append(_Use(node.id, self._chain(node), self.module.statement(node)))
        return found

    def _chain(self, node: ast.expr) -> ast.expr:
        """`batch["label"]`, `images.shape[0]`, `images.size(0)`: as far as it is one value of the batch."""
        while True:
            parent = self.module.parents.get(node)
            picked = (
                isinstance(parent, ast.Subscript) and parent.value is node and isinstance(parent.slice, ast.Constant)
            )
            if picked or (isinstance(parent, ast.Attribute) and parent.attr == "shape"):
                node = parent  # type: ignore[assignment]
            elif isinstance(parent, ast.Attribute) and parent.attr == "size" and self._is_called(parent):
                node = self.module.parents[parent]  # type: ignore[assignment]
            elif isinstance(parent, ast.Call) and dotted(parent.func) == "len" and parent.args == [node]:
                return parent
            else:
                return node

    def _is_part(self, node: ast.expr, index: ast.expr) -> bool:
        """True for a part of a batch and for a size, and not for one sample of a tensor."""
        if not isinstance(index, ast.Constant):
            return False
        whole = isinstance(node, ast.Name) and node.id in self.flow.targets - self.flow.tensors
        return isinstance(index.value, str) or whole or not isinstance(node, ast.Name)

    def _is_called(self, node: ast.Attribute) -> bool:
        parent = self.module.parents.get(node)
        return isinstance(parent, ast.Call) and parent.func is node

    def _is_late(self, use: _Use, calls: list[ast.Call]) -> bool:
        place = self.module.span(use.node)
        behind = place.start >= self.module.span(self.module.statement(calls[0])).start
        return behind and not any(self.module.span(call).contains(place) for call in calls)

    def _ancestors(self, names: set[str]) -> set[str]:
        """The names that the model's arguments are made of."""
        found, queue = set[str](), list(names)
        while queue:
            name = queue.pop()
            if name not in found:
                found.add(name)
                queue += self.sources.get(name, ())
        return found

    # ---------------------------------------------------------------- what is put together, and where
    def _place(self, calls: list[ast.Call], statement: ast.stmt, given: set[str], late: list[_Use]) -> WholeBatch:
        statements = [self.module.statement(call) for call in calls]
        uses = [*self.early, *late]
        for use in uses:
            if use.name not in given and self._is_outlived(use.name, given):
                self.flow.stop(use.node, f"{use.name} is made of what has another value by then")
        roots = dict.fromkeys(root for use in uses if use.name not in given for root in self._roots(use.name, given))
        places = {root: self._first_use(root, statement) for root in roots}
        inline, after, sizes = [self.module.span(call) for call in calls], dict[str, None](), list[tuple[Span, str]]()
        parts: list[_Use] = []
        other = next((root for root in roots if self._is_tensor(root)), None)
        taken = {self.module.segment(u.node) for call in calls for u in self._uses(call)}
        for use in uses:
            if use.name not in given or self._asks_of_each(use):
                continue
            text = self.module.segment(use.node)
            if other is not None and self._asks_size(use) and self._is_whole_before(other, places, use.statement):
                sizes.append((self.module.span(use.node), text.replace(use.name, other, 1)))
            elif use in self.early:
                self.flow.stop(use.node, f"{text} is looked at before the model is called")
            elif use.statement in statements:
                inline.append(self.module.span(use.node))
            elif text not in taken and self._is_straight(use, statement) and not self._is_replaced(use):
                parts.append(use)
            elif isinstance(statement, ast.If):
                self.flow.stop(use.node, f"{text} is looked at behind the branches that call the model")
            else:
                after[use.name] = None
        inline += [self.module.span(use.node) for use in parts if use.name not in after]
        for name in self.no_tensors & {*places, *after}:
            self.flow.stop(statement, f"{name} is no tensor that could be put together")
        whole = {name for name in self.sources if name not in given and set(self._roots(name, given)) <= set(places)}
        self._check_behind(set(self.sources) - set(after) - whole)
        return WholeBatch(
            self.module.span(calls[0]),
            self.module.span(statements[-1]),
            tuple(dict.fromkeys(inline)),
            tuple((self.module.span(place), root) for root, place in places.items()),
            tuple(after),
            tuple(dict.fromkeys(sizes)),
        )

    def _is_straight(self, use: _Use, statement: ast.stmt) -> bool:
        """True for a part of a batch in an assignment beside the call: no process passes it by, as it may an effect."""
        beside = use.statement in self.module.block(statement)
        return isinstance(use.node, ast.Subscript) and beside and isinstance(use.statement, ast.Assign | ast.AugAssign)

    def _is_replaced(self, use: _Use) -> bool:
        """True where a step behind the call gives the name or one of its parts another value, which is whole already."""
        return any(
            isinstance(n, ast.Name)
            and n.id == use.name
            and (
                isinstance(n.ctx, ast.Store) or isinstance(getattr(self.module.parents.get(n), "ctx", None), ast.Store)
            )
            for statement in self.module.block(use.statement)
            if self.module.span(statement).start >= self.module.span(self.module.statement(use.node)).start
            for n in ast.walk(statement)
        )

    def _roots(self, name: str, given: set[str], seen: frozenset[str] = frozenset()) -> Iterator[str]:
        """The first names behind `name` that the model is not given: once they are whole, what is made of them is."""
        own = self.sources.get(name, set()) - given
        if not own or self.sources[name] & given or name in seen:
            yield name
            return
        for source in own:
            yield from self._roots(source, given, seen | {name})

    def _is_outlived(self, name: str, given: set[str]) -> bool:
        """True where what a name, or one behind it, is made of gets a new value, which becomes whole in its place."""
        made = min((self.module.span(d).start for d in self.redefined.get(name, ())), default=0)
        own = self.sources.get(name, set()) - given
        later = (d for source in own for d in self.redefined.get(source, ()))
        return any(self.module.span(d).start >= made for d in later) or any(
            self._is_outlived(source, given) for source in own
        )

    def _first_use(self, root: str, statement: ast.stmt) -> ast.stmt:
        """The first statement that needs the whole of a name: not those that only give the name itself a new value."""
        defined = self.redefined.get(root, [])
        start = self.module.span(self.loop).start
        users = [u.statement for u in self._uses(self.loop) if u.name == root]
        users += [d for name, places in self.redefined.items() for d in places if root in self.sources[name]]
        places = [s for s in users if s not in defined and self.module.span(s).start > start]
        last = max((self.module.span(d).start for d in defined), default=start)
        places = [s for s in places if self.module.span(s).start > last]
        return self._in_every_step(min([*places, statement], key=lambda s: self.module.span(s).start), statement)

    def _in_every_step(self, place: ast.stmt, statement: ast.stmt) -> ast.stmt:
        """The statement around a place that every step comes to, as it comes to the call's."""
        outer = {statement, *(a for a in self.module.ancestors(statement) if isinstance(a, ast.stmt))}
        while self.module.parents[place] not in {self.module.parents[s] for s in outer if s in self.module.parents}:
            parent = self.module.parents[place]
            assert isinstance(parent, ast.stmt)  # the loop itself is around the statement too
            place = parent
        return place

    def _asks_size(self, use: _Use) -> bool:
        """True for the number of samples, asked of a name that holds one tensor."""
        text = self.module.segment(use.node).replace(" ", "")
        return text.removeprefix(use.name) in (".size(0)", ".shape[0]", ".size()[0]") or text == f"len({use.name})"

    def _asks_of_each(self, use: _Use) -> bool:
        """True for what the samples of a batch have in common: another dimension than theirs, the type, the device."""
        text, parent = self.module.segment(use.node).replace(" ", ""), self.module.parents.get(use.node)
        return bool(_OTHER_SIZE.search(text)) or (isinstance(parent, ast.Attribute) and parent.attr in _IN_COMMON)

    def _is_tensor(self, name: str) -> bool:
        """True for a batch that is moved by a method of its own, or asked for its size."""
        moved = any(_is_moved(_plain_values(definition).get(name)) for definition in self.redefined.get(name, ()))
        return moved or any(self._asks_size(use) for use in self._uses(self.loop) if use.name == name)

    def _is_whole_before(self, name: str, places: dict[str, ast.stmt], statement: ast.stmt) -> bool:
        """Make a name whole before a statement that stands above its first use so far, if it has its value by then."""
        start = self.module.span(statement).start
        if any(self.module.span(d).start >= start for d in self.redefined.get(name, ())):
            return False
        if start < self.module.span(places[name]).start:
            places[name] = statement
        return True

    def _check_behind(self, names: set[str]) -> None:
        """What stays this process's own must not be read behind the loop."""
        scope, end = self.module.scope_of.get(self.loop), self.module.span(self.loop).end
        for node in self.module.nodes:
            if isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load):
                if self.module.scope_of.get(node) is scope and self.module.span(node).start >= end:
                    if not self._is_bound_again(node, end):
                        self.flow.stop(node, f"{node.id} would hold this process's share only")

    def _is_bound_again(self, node: ast.Name, end: int) -> bool:
        scope, start = self.module.scope_of.get(node), self.module.span(node).start
        return any(
            isinstance(n, ast.Name)
            and n.id == node.id
            and isinstance(n.ctx, ast.Store)
            and self.module.scope_of.get(n) is scope
            and end <= self.module.span(n).start < start
            for n in self.module.nodes
        )


def names_in_arguments(call: ast.Call) -> set[str]:
    """Names among the arguments of a call."""
    return {name for part in [*call.args, *(k.value for k in call.keywords)] for name in names_in(part)}


def _is_moved(value: ast.expr | None) -> bool:
    """`x.cuda()`, `batch[1].to(device).squeeze()`."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr in ("cuda", "to"):
            return True
        value = value.func.value
    return False


def _plain_values(node: ast.stmt) -> dict[str, ast.expr]:
    """What an assignment to nothing but names gives to each of them; empty for any other statement."""
    if not isinstance(node, ast.Assign):
        return {}
    found: dict[str, ast.expr] = {}
    for target in node.targets:
        elements = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        paired = isinstance(node.value, ast.Tuple) and len(node.value.elts) == len(elements) and len(elements) > 1
        for i, element in enumerate(elements):
            if not isinstance(element, ast.Name):
                return {}
            found[element.id] = node.value.elts[i] if paired and isinstance(node.value, ast.Tuple) else node.value
    return found
