"""What one process may do with its share of a batch: a plain mean over samples, and figures that can be put together.

In: a `Reader` and the training loop.  Out: loss and meters in `Training`, and obstacles.
"""

from __future__ import annotations

from collections.abc import Iterator

from migrator.facts.batch_loops import BatchLoop
from migrator.facts.flow import Flow
from migrator.facts.left_over import is_handed_on, left_over, read_behind
from migrator.facts.reader import Reader, in_message
from migrator.facts.syntax import Module
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
    elif flow.forwards > 1:
        reader.obstacle(module, loop, "the model is called more than once in a step")


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
            yield Meter(kind, names, module.span(loop))


def _check_figures(reader: Reader, module: Module, loop: BatchLoop, flow: Flow) -> None:
    """A figure that cannot be put together must not be read after the loop, messages apart."""
    for node in left_over(module, loop, flow, in_message):
        reader.obstacle(module, node, f"{module.segment(node)} would cover this process's share only")
