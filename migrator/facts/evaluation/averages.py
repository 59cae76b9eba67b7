"""Which evaluations are run in shares, because they average or add up what the model gives on each device.

In: a `Reader` that knows the evaluations.  Out: the calls in their `EvaluationLoop`s; obstacles where not every process comes to
the call with the same batch.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from migrator.facts.evaluation.averaged import averaged_outputs
from migrator.facts.processes.alone import run_by_one
from migrator.facts.processes.uniform import listings_before
from migrator.facts.python.made_of import is_drawn
from migrator.facts.python.syntax import Span
from migrator.facts.training.reader import Reader
from migrator.facts.training.training import EvaluationLoop

_AVERAGES = "an evaluation averages the losses that the model computes on each device"


def read_averages(reader: Reader) -> None:
    found = list(averaged_outputs(reader.program))
    alone = run_by_one(reader.program) if found else []
    for one in found:
        loop = one.module.span(one.loop)
        place = next((i for i, e in enumerate(reader.training.evaluations) if e.at == loop), None)
        known = reader.training.evaluations[place] if place is not None else None
        if known is not None and known.share:
            continue
        listings = listings_before(reader.program, one.module, one.module.statement(one.call))
        if place is None or known is None or listings is None or not _is_alike(reader, known, alone):
            reader.obstacle(one.module, one.mean, _AVERAGES)
            continue
        called = one.module.span(one.call.func)
        averaged = dict.fromkeys((*known.averaged, called))
        reader.training.evaluations[place] = replace(known, averaged=tuple(averaged), listings=tuple(listings))


def _is_alike(reader: Reader, loop: EvaluationLoop, alone: list[Span]) -> bool:
    """True where every process has equal batches in a loop that all of them come to."""
    loader = loop.loader
    if loader is None or loader.batch is None or any(place.contains(loop.at) for place in alone):
        return False
    ordered = loader.shuffled is False or (
        loader.shuffle is None and (loader.keeps_order or not loader.has_none_sampler)
    )
    if not ordered:
        return False
    owner = reader.program.module_at(loader.dataset)
    dataset = reader.node(owner, loader.dataset)
    return isinstance(dataset, ast.expr) and not is_drawn(reader.program, owner, dataset)
