"""Evaluation is shared out without padding, and its figures are those of the whole set.

Each process evaluates its own samples through the bare model, with rank 0's BatchNorm statistics; what the loop adds up is
then added over the processes, so that every decision on it is the same everywhere.  Where the figures were not all
recognised, every process evaluates everything instead, which is right and not faster.  An evaluation that averages or adds up what
the model gives on each device, such as a loss of its own, goes on with whole batches, of which each process computes its part.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from codemods.metrics.evaluations import gathering, in_shares, shared_out, synchronised
from migrator.facts.processes.alone import run_by_one
from migrator.facts.python.syntax import Span


def check(context: Context) -> Iterator[Diagnostic]:
    training = context.sharing.training
    if training is None or context.sharing.way not in ("distributed", "batch"):
        return
    for meters in training.meters:
        yield RULE.converted(
            meters.after, "figures of the epoch cover the samples of all processes", *gathering(context, meters)
        )
    listed: list[Span] = []  # files that rank 0 already lists for all
    for loop in training.evaluations:
        if loop.share and context.options.evaluation != "replicate":
            reason = "each process evaluates its own samples; the figures are added up"
            yield RULE.converted(loop.at, reason, *shared_out(context, loop), optional=True)
            continue
        if loop.averaged:
            reason = "each process computes its part of a batch, as each device did: what is averaged over them stays"
            listings = [place for place in loop.listings if place not in listed]
            listed += listings
            yield RULE.converted(loop.at, reason, *in_shares(context, loop, listings))
            continue
        if loop.networks and not any(place.contains(loop.at) for place in run_by_one(context.program)):
            reason = "every process evaluates with rank 0's BatchNorm statistics"
            yield RULE.converted(loop.at, reason, *synchronised(context, loop, loop.networks))
        if loop.model_calls and context.options.evaluation == "shard":
            yield RULE.question(loop.at, f"--eval shard: this loop cannot be shared out: {loop.why_not}")
        elif loop.model_calls:
            yield RULE.note(loop.at, f"every process evaluates all samples: {loop.why_not or 'as asked'}")


RULE = Rule(
    "MG702",
    "share-evaluation",
    check,
    __doc__ or "",
    hazards=("H09", "H39", "H42", "H101", "H103"),
    keeps=("metrics",),
    needs=("MG108", "MG201", "MG204"),
)
