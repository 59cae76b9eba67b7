"""What one process may do with its share of a batch: a plain mean over samples, and figures that can be put together.

In: a `Reader` and the training loop.  Out: loss and meters in `Training`, and obstacles.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrator.facts.loaders.batch_loops import BatchLoop
from migrator.facts.model import Place
from migrator.facts.python.syntax import Module, Span
from migrator.facts.steps.flow import Flow
from migrator.facts.steps.freezing import wraps_at
from migrator.facts.steps.left_over import is_handed_on, left_over, read_behind
from migrator.facts.steps.passes import UNTRAINED, Exchanged, exchanged
from migrator.facts.steps.several_passes import SeveralPasses
from migrator.facts.training.reader import Reader, in_message
from migrator.facts.training.training import Meter

DRAWN = "all processes would draw the same rows"


def read_shares(reader: Reader, module: Module, loop: BatchLoop, several: bool = False) -> None:
    """Follow a share of the batch: whatever is not known to be right for a share is an obstacle.

    `several` says that each of several backward passes exchanges its gradients.
    """
    flow = SeveralPasses(reader, module, loop) if several else Flow(reader, module, loop)
    flow.asks_rank_zero = not several
    flow.follow()
    if isinstance(flow, SeveralPasses):
        reader.training.drawn += [
            Place(at, module.span(module.statement(call)), module.segment(call), DRAWN)
            for at, call in flow.drawn.items()
        ]
    reader.training.drawn_once += [
        Place(at, module.span(module.statement(drawn)), module.segment(drawn)) for at, drawn in flow.drawn_once.items()
    ]
    reader.training.loss = flow.loss_text
    reader.training.meters = tuple(meters_of(reader, module, loop, flow))
    _check_figures(reader, module, loop, flow)
    if flow.forwards == 0:
        reader.obstacle(module, loop, "the wrapped model is not called in the training loop itself")
    elif flow.forwards > 1 and not (
        several
        or _are_different_models(reader, module, flow)
        or isinstance(exchanged(reader.program, module, loop), Exchanged)
    ):
        reader.obstacle(module, loop, "the model is called more than once in a step")
    if flow.forwards > 1:
        for wrap in _untrained(reader, module, flow):
            reader.obstacle(*wrap, UNTRAINED)


def _untrained(reader: Reader, module: Module, flow: Flow) -> list[tuple[Module, ast.AST]]:
    """The wraps of called networks whose parameters nothing asks for: a criterion has none, and so no gradients to exchange."""
    called = [n for n in module.nodes if isinstance(n, ast.expr) and module.span(n) in flow.model_calls]
    wraps = {wrap for node in called for wrap in wraps_at(reader.program, module, node)}
    for owner in reader.program.modules:
        for node in owner.nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr in ("parameters", "named_parameters"):
                    wraps -= _wraps_of(reader, owner, node.func.value)
    rows = [reader.program.wrap_calls.nodes[wrap] for wrap in wraps]
    return [(row[0], row[1]) for row in rows]


def _wraps_of(reader: Reader, module: Module, node: ast.expr) -> set[ast.AST]:
    """The wraps of a network, under the wrapper's name, the network's own, or that of a part of either."""
    while True:
        found = set(wraps_at(reader.program, module, node))
        values = {v.node for v in reader.resolver.values(module, node) if v.node is not None}
        for wrap, (owner, call, *_) in reader.program.wrap_calls.nodes.items():
            inner = call.args[0] if call.args else None
            if inner is not None and values & {v.node for v in reader.resolver.values(owner, inner)}:
                found.add(wrap)
        if found or not isinstance(node, ast.Attribute):
            return found
        node = node.value


def _are_different_models(reader: Reader, module: Module, flow: Flow) -> bool:
    """True where each of a step's calls runs a wrapped network of its own: a backbone and a head in a row, say."""
    networks = [_networks(reader, module, span) for span in flow.model_calls]
    apart = all(networks) and sum(map(len, networks)) == len(set().union(*networks))
    return apart and len(networks) == flow.forwards


def _networks(reader: Reader, module: Module, called: Span) -> set[ast.AST]:
    """The networks that a call may run, by where each is made; none where that cannot be seen."""
    node = next((n for n in module.nodes if isinstance(n, ast.Name | ast.Attribute) and module.span(n) == called), None)
    made = {(v.module.path, v.module.span(v.node)) for v in reader.resolver.values(module, node) if v.module and v.node}
    found: set[ast.AST] = set()
    for wrap in reader.program.wraps:
        if any(wrap.at.path == path and wrap.outer.contains(span) for path, span in made):
            owner = reader.program.module_at(wrap.at)
            inner = reader.resolver.values(owner, reader.node(owner, wrap.inner))
            if not inner or any(v.kind != "instance" or v.node is None for v in inner):
                return set()
            found |= {v.node for v in inner if v.node is not None}
    return found


def meters_of(reader: Reader, module: Module, loop: BatchLoop, flow: Flow) -> Iterator[Meter]:
    """Figures of the loop that can be put together over processes."""
    for kind in ("object", "sum", "mean"):
        names = tuple(
            name
            for name, known in flow.figures.items()
            if known == kind
            and (read_behind(module, loop, name) or (kind == "object" and is_handed_on(module, loop, name)))
        )
        if names:
            kept = [name for name, of in flow.copies.items() if of in names and name not in names]  # `logged = total`
            yield Meter(kind, (*names, *kept), module.span(loop))


def _check_figures(reader: Reader, module: Module, loop: BatchLoop, flow: Flow) -> None:
    """A figure that cannot be put together must not be read after the loop, messages apart."""
    for node in left_over(module, loop, flow, in_message):
        reader.obstacle(module, node, f"{module.segment(node)} would cover this process's share only")
