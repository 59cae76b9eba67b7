"""Whether DistributedDataParallel exchanges the gradients of every backward pass in a step.

In: a training loop.  Out: the place and the reason where it would not, or where that cannot be told; None where each backward pass
comes after a forward pass of every wrapped network that it reaches.  One forward pass through the wrapper arms the exchange for one
backward pass: `f b f b` adds exchanged gradients up, `f f b` exchanges their sum, and of `f f b b` the second stays on each
process.  The body is gone through twice, along all of its branches, as if no branch were tied to another.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from migrator.facts.loaders.batch_loops import BatchLoop
from migrator.facts.networks.statistics import may_keep_statistics
from migrator.facts.program import Program
from migrator.facts.python.nodes import FunctionNode, dotted, walk
from migrator.facts.python.scopes import Scope
from migrator.facts.python.syntax import Module
from migrator.facts.steps.freezing import Freezing, freezing, only_toggled, wraps_at
from migrator.facts.steps.model_calls import model_called
from migrator.facts.steps.pass_functions import NO_FORWARD, NO_GRAD, goes_back
from migrator.facts.steps.pass_states import Graph, Network, State
from migrator.facts.wraps.wrapped_apart import are_apart

NOT_EXCHANGED = "there is more than one backward pass in a step"
FROZEN = "parameters are frozen or released after the model was wrapped"
UNTRAINED = "a wrapped network is not trained"
STATISTICS = "the model's statistics would change between two calls in one step"
_MOST_WAYS = 200
_CUTS = frozenset(["detach", "detach_", "item", "numpy", "tolist", "size", "dim", "numel"])
_OF_BACKWARD = frozenset(["retain_graph"])  # what does not change which gradients there are
_NO_GRAPH = frozenset(["data", "shape", "device", "dtype", "grad"])


class Unproven(Exception):
    """The place and the reason why the exchange of gradients cannot be told."""

    def __init__(self, node: ast.AST, note: str):
        super().__init__(note)
        self.node, self.note = node, note


@dataclass(frozen=True, slots=True)
class Exchanged:
    """A step whose every gradient is exchanged: what freezes whole networks for a part of it, and the number of model calls."""

    toggles: frozenset[ast.AST]
    calls: int


def exchanged(program: Program, module: Module, loop: BatchLoop) -> Exchanged | Unproven:
    """Whether each backward pass of a loop's step exchanges its gradients, and why that is not known."""
    reader = _Passes(program, module)
    try:
        states = reader.block(loop.body, {State(frozen=frozen) for frozen in reader.frozen_before(loop)})
        reader.block(loop.body, {replace(state, left="") for state in states})
        writes = reader.flags_written(loop)
    except Unproven as unproven:
        return unproven
    return Exchanged(writes, len(reader.seen))


class _Passes:
    """Goes through statements with all ways that may lead to them."""

    def __init__(self, program: Program, module: Module):
        self.program, self.module = program, module
        self.statistics = may_keep_statistics(program)
        self.toggles: dict[ast.stmt, Freezing] = {}
        self.seen: set[ast.Call] = set()
        self.called: set[Network] = set()
        self.trained: set[Network] = set()
        self.without_gradient = 0
        self._runs: dict[ast.AST, bool] = {}

    def flags_written(self, loop: BatchLoop) -> frozenset[ast.AST]:
        """What freezes whole networks for a part of the step, and is known to; a network that is not trained has no exchange."""
        if self.called - self.trained:
            raise Unproven(loop, UNTRAINED)
        if not are_apart(self.program, self.called):
            raise Unproven(loop, NOT_EXCHANGED)
        if not self.toggles and len(self.called) < 2:
            return frozenset()
        writes = only_toggled(self.program, self.toggles)
        if writes is None:
            raise Unproven(next(iter(self.toggles), loop), FROZEN)
        return writes

    def frozen_before(self, loop: BatchLoop) -> set[frozenset[Network]]:
        """What may be frozen when the loop begins: nothing, or what its function froze above it, behind the wraps."""
        found: set[Network] = set()
        scope, start = self._scope(loop), self.module.span(loop).start
        wraps = [self.module.span(n) for n in self.program.wrap_calls.inside(self.module) if self._scope(n) is scope]
        for node in self.module.nodes:
            if not isinstance(node, ast.stmt) or self._scope(node) is not scope:
                continue
            place = self.module.span(node)
            toggle = freezing(self.program, self.module, node) if place.start < start else None
            late = all(wrap.end < place.start for wrap in wraps)
            if toggle is not None and toggle.network is not None and toggle.frozen is not None and late:
                self.toggles[node] = toggle
                found |= {toggle.network} if toggle.frozen else set()
        return {frozenset(), frozenset(found)}

    def _scope(self, node: ast.AST) -> Scope:
        return self.module.scope_of.get(node, self.module.scope)

    # ---------------------------------------------------------------- statements
    def block(self, body: list[ast.stmt], states: set[State]) -> set[State]:
        for statement in body:
            going = {state for state in states if not state.left}
            states = {state for state in states if state.left} | (self._statement(statement, going) if going else set())
            if len(states) > _MOST_WAYS:
                raise Unproven(statement, NOT_EXCHANGED)
        return states

    def _statement(self, node: ast.stmt, states: set[State]) -> set[State]:
        toggle = freezing(self.program, self.module, node)
        if toggle is not None:
            return {self._freeze(node, toggle, state) for state in states}
        match node:
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                return {self._assign(node, state) for state in states}
            case ast.If():
                states = {self._read(node.test, state)[0] for state in states}
                return self.block(node.body, states) | self.block(node.orelse, states)
            case ast.For() | ast.While():
                return self._loop(node, states)
            case ast.With():
                return self._with(node, states)
            case ast.Continue() | ast.Break():
                return {replace(state, left="turn") for state in states}
            case ast.Return() | ast.Raise():
                return {replace(state, left="step") for state in states}
            case ast.FunctionDef() | ast.ClassDef() | ast.Try() | ast.Match() | ast.AsyncFunctionDef():
                if any(self._passes(inner) for inner in walk(node)):
                    raise Unproven(node, NOT_EXCHANGED)
                return states
        for expression in ast.iter_child_nodes(node):
            states = {self._read(expression, state)[0] for state in states}
        return states

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, state: State) -> State:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple) and isinstance(targets[0], ast.Tuple):
            if len(node.value.elts) == len(targets[0].elts) and len(targets) == 1:
                graphs = []
                for value in node.value.elts:
                    state, graph = self._read(value, state)
                    graphs.append(graph)
                for target, graph in zip(targets[0].elts, graphs, strict=True):
                    state = self._bind(target, graph, state)
                return state
        state, graph = self._read(node.value, state) if node.value is not None else (state, frozenset())
        for target in targets:
            more = state.graph(dotted(target) or "") if isinstance(node, ast.AugAssign) else frozenset()
            state = self._bind(target, graph | more, state)
        return state

    def _bind(self, target: ast.AST, graph: Graph, state: State) -> State:
        if isinstance(target, ast.Tuple | ast.List | ast.Starred):
            for element in [target.value] if isinstance(target, ast.Starred) else target.elts:
                state = self._bind(element, graph, state)
            return state
        if isinstance(target, ast.Subscript):  # one of several: the others stay
            name = dotted(target.value)
            return state.bound(name, graph | state.graph(name)) if name is not None else state
        name = dotted(target)
        return state.bound(name, graph) if name is not None else state

    def _loop(self, node: ast.For | ast.While, states: set[State]) -> set[State]:
        """Not at all, once, twice: what holds of two turns holds of more."""
        head = node.iter if isinstance(node, ast.For) else node.test
        found = {self._read(head, state)[0] for state in states}
        for _ in range(2):
            turned = self.block(node.body, found)
            found |= {replace(state, left="" if state.left == "turn" else state.left) for state in turned}
        return self.block(node.orelse, found)

    def _with(self, node: ast.With, states: set[State]) -> set[State]:
        without = 0
        for item in node.items:
            states = {self._read(item.context_expr, state)[0] for state in states}
            if isinstance(item.context_expr, ast.Call):
                without += self.program.external(self.module, item.context_expr) in NO_GRAD
            if item.optional_vars is not None:  # `with amp.scale_loss(loss, optimizer) as scaled`
                graphs = {state: self._read(item.context_expr, state, quiet=True)[1] for state in states}
                states = {self._bind(item.optional_vars, graph, state) for state, graph in graphs.items()}
        self.without_gradient += without
        states = self.block(node.body, states)
        self.without_gradient -= without
        return states

    def _freeze(self, node: ast.stmt, toggle: Freezing, state: State) -> State:
        """All of a network's parameters, while no backward pass through it is to come."""
        if toggle.frozen is None or toggle.network is None:
            raise Unproven(node, FROZEN)
        self.toggles[node] = toggle
        others = tuple((n, frozenset(p for p in g if p[0] is not toggle.network)) for n, g in state.graphs)
        frozen = state.frozen - {toggle.network} | ({toggle.network} if toggle.frozen else frozenset())
        return replace(state, frozen=frozen, graphs=self._spoilt(state, others, toggle))

    @staticmethod
    def _spoilt(state: State, others: tuple[tuple[str, Graph], ...], toggle: Freezing) -> tuple[tuple[str, Graph], ...]:
        """Values that were computed by a network before it was frozen or released are marked: no pass may go back through them."""
        marked = []
        for (name, graph), (_, kept) in zip(state.graphs, others, strict=True):
            changed = (toggle.network in state.frozen) is not toggle.frozen
            spoilt = frozenset((network, -1) for network, _ in graph - kept) if changed else graph - kept
            marked.append((name, kept | spoilt))
        return tuple(marked)

    # ---------------------------------------------------------------- expressions
    def _read(self, node: ast.AST, state: State, quiet: bool = False) -> tuple[State, Graph]:
        """What an expression does, and by which forward passes its value was computed; `quiet` only asks for the latter."""
        if isinstance(
            node,
            ast.Lambda
            | FunctionNode
            | ast.ListComp
            | ast.SetComp
            | ast.DictComp
            | ast.GeneratorExp
            | ast.IfExp
            | ast.BoolOp,
        ):
            if any(self._passes(inner) for inner in walk(node)):
                raise Unproven(node, NOT_EXCHANGED)
        name = dotted(node) if isinstance(node, ast.Name | ast.Attribute) else None
        if name is not None and state.graph(name):
            return state, state.graph(name)
        if isinstance(node, ast.Attribute):
            state, graph = self._read(node.value, state, quiet)
            return state, frozenset() if node.attr in _NO_GRAPH else graph
        if isinstance(node, ast.Call):
            return self._call(node, state, quiet)
        found: Graph = frozenset()
        for child in ast.iter_child_nodes(node):
            state, graph = self._read(child, state, quiet)
            found |= graph
        return state, found

    def _call(self, node: ast.Call, state: State, quiet: bool) -> tuple[State, Graph]:
        func = node.func
        if self.program.external(self.module, node).rpartition(".")[2] == "set_grad_enabled":
            raise Unproven(node, NOT_EXCHANGED)  # whether a pass is followed shows at run time only
        receiver: Graph = frozenset()
        if isinstance(func, ast.Attribute):
            state, receiver = self._read(func.value, state, quiet)
        given: Graph = frozenset()
        for part in [*node.args, *(keyword.value for keyword in node.keywords)]:
            state, graph = self._read(part, state, quiet)
            given |= graph
        if isinstance(func, ast.Attribute) and func.attr == "backward":
            return (state if quiet else self._backward(node, receiver | given, state)), frozenset()
        network = self._network(node)
        if network is not None:
            return (state, given) if quiet else self._forward(node, network, given, state)
        if not quiet and self._runs_passes(node):
            raise Unproven(node, NOT_EXCHANGED)
        if isinstance(func, ast.Attribute) and func.attr in _CUTS:
            return state, frozenset()
        return state, frozenset() if self.without_gradient else receiver | given

    def _network(self, node: ast.Call) -> Network | None:
        """The one network that a call runs."""
        if isinstance(node.func, ast.Attribute) and node.func.attr in NO_FORWARD:
            return None
        called = model_called(self.program, self.module, node)
        if called is None:
            return None
        wraps = wraps_at(self.program, *called)
        if len(wraps) != 1:
            raise Unproven(node, NOT_EXCHANGED)
        return wraps.pop()

    def _forward(self, node: ast.Call, network: Network, given: Graph, state: State) -> tuple[State, Graph]:
        self.seen.add(node)
        self.called.add(network)
        number = state.called(network) + 1
        calls = {**dict(state.calls), network: number}
        ordered = tuple(sorted(calls.items(), key=lambda row: _place(row[0])))
        state = replace(state, calls=ordered)
        if self.without_gradient:
            return state, frozenset()
        state = replace(state, armed=state.armed | {network})
        return state, given | {(network, number)}

    def _backward(self, node: ast.Call, graph: Graph, state: State) -> State:
        if not graph or any(keyword.arg not in _OF_BACKWARD for keyword in node.keywords):
            raise Unproven(node, NOT_EXCHANGED)
        if any(number < 0 for _, number in graph):
            raise Unproven(node, FROZEN)
        if self.statistics and any(number < state.called(network) for network, number in graph):
            raise Unproven(node, STATISTICS)
        reached = {network for network, _ in graph} - state.frozen
        if not reached <= state.armed:
            raise Unproven(node, NOT_EXCHANGED)
        self.trained |= reached
        return replace(state, armed=state.armed - reached)

    # ---------------------------------------------------------------- functions that do any of it
    def _passes(self, node: ast.AST) -> bool:
        """True for a forward pass of a wrapped network, and for a backward pass."""
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Attribute) and node.func.attr == "backward":
            return True
        return self._network(node) is not None or self._runs_passes(node)

    def _runs_passes(self, node: ast.Call, depth: int = 3) -> bool:
        """True for a call of a function of the program's own that does either, apart from what only evaluates."""
        callee = self.program.resolver.callee(self.module, node)
        if callee is None or not isinstance(callee[1], ast.FunctionDef):
            return False
        known = self._runs.get(callee[1])
        if known is None:
            known = self._runs[callee[1]] = goes_back(self.program, *callee, depth)
        return known


def _place(network: Network) -> tuple[int, int]:
    """Where a network is wrapped, in whatever file."""
    return getattr(network, "lineno", 0), getattr(network, "col_offset", 0)
