"""What one process may do with its share of a batch: a plain mean over samples, and figures that can be put together.

In: a `Reader` and the training loop.  Out: loss and meters in `Training`, and obstacles.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrator.facts.batch_loops import BatchLoop
from migrator.facts.flow import Flow
from migrator.facts.left_over import is_handed_on, left_over, read_behind
from migrator.facts.reader import Reader, in_message
from migrator.facts.syntax import Module, Span
from migrator.facts.training import Meter


def read_shares(reader: Reader, module: Module, loop: BatchLoop) -> None:
    """Follow a share of the batch: whatever is not known to be right for a share is an obstacle."""
    flow = Flow(reader, module, loop)
    flow.follow()
    reader.training.loss = flow.loss_text
    reader.training.meters = tuple(meters_of(reader, module, loop, flow))
    _check_figures(reader, module, loop, flow)
    if flow.forwards == 0:
        reader.obstacle(module, loop, "the wrapped model is not called in the training loop itself")
    elif flow.forwards > 1 and not _are_different_models(reader, module, flow):
        reader.obstacle(module, loop, "the model is called more than once in a step")


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
