"""Evaluation is shared out without padding, and its figures are those of the whole set.

Each process evaluates its own samples through the bare model, with rank 0's BatchNorm statistics; what the loop adds up is
then added over the processes, so that every decision on it is the same everywhere.  Where the figures were not all
recognised, every process evaluates everything instead, which is right and not faster.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import DropArgument, Edit, InsertAfter, InsertBefore, Replace, SetArgument
from migrator.facts.alone import run_by_one
from migrator.facts.statistics import may_keep_statistics
from migrator.facts.syntax import Span
from migrator.facts.training import EvaluationLoop, Meter

_HELPERS = {
    "ddp": {"object": "average_over_ranks", "sum": "sum_over_ranks", "mean": "mean_over_ranks"},
    "accelerate": {"object": "average_over_processes", "sum": "sum_over_processes", "mean": "mean_over_processes"},
}


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
            yield RULE.converted(loop.at, reason, *_share(context, loop), optional=True)
            continue
        if loop.averaged:
            reason = "each process computes its part of a batch, as each device did: what is averaged over them stays"
            listings = [place for place in loop.listings if place not in listed]
            listed += listings
            yield RULE.converted(loop.at, reason, *_in_shares(context, loop, listings))
            continue
        if loop.networks and not any(place.contains(loop.at) for place in run_by_one(context.program)):
            reason = "every process evaluates with rank 0's BatchNorm statistics"
            yield RULE.converted(loop.at, reason, *_synchronised(context, loop, loop.networks))
        if loop.model_calls and context.options.evaluation == "shard":
            yield RULE.question(loop.at, f"--eval shard: this loop cannot be shared out: {loop.why_not}")
        elif loop.model_calls:
            yield RULE.note(loop.at, f"every process evaluates all samples: {loop.why_not or 'as asked'}")


def gathering(context: Context, meters: Meter) -> Iterator[Edit]:
    """Edits that put the figures of a loop together after it."""
    helper = _HELPERS[context.options.target][meters.kind]
    names = ", ".join(meters.names)
    call = f"{helper}({names})"
    if context.accelerate:
        name, imports = context.processes(meters.after)
        yield from imports
        call = f"{helper}({name}, {names})"
    yield context.helper(meters.after, helper)
    yield InsertAfter(meters.after, f"{call}\n" if meters.kind == "object" else f"{names} = {call}\n")


def _bare_calls(context: Context, loop: EvaluationLoop) -> Iterator[Edit]:
    """Calls of the model itself, whose wrapper would make the processes wait for each other's batches."""
    models = tuple(dict.fromkeys(context.program.text(call) for call in loop.model_calls))
    if not context.accelerate:
        yield from _synchronised(context, loop, models)
        for call in loop.model_calls:
            yield Replace(call, "$0.module", (call,))
        return
    unwrap, imports = context.unwrapped(loop.at)
    yield from imports
    names: dict[str, str] = {}
    for model in models:
        named = f"unwrapped_{model.rpartition('.')[2]}"
        if named.isidentifier() and named not in names.values():
            names[model] = context.program.free_name(named, loop.at)
            yield InsertBefore(loop.at, f"{names[model]} = {unwrap}({model})\n")
    yield from _synchronised(context, loop, tuple(names.get(model, model) for model in models))
    for call in loop.model_calls:
        name = names.get(context.program.text(call))
        yield Replace(call, name) if name else Replace(call, f"{unwrap}($0)", (call,))


def _share(context: Context, loop: EvaluationLoop) -> Iterator[Edit]:
    loader = loop.loader
    assert loader is not None and loader.batch is not None
    share = "own_share($0)"
    if context.accelerate:
        name, imports = context.processes(loader.at)
        share = f"process_share({name}, $0)"
        yield from imports
    yield context.helper(loader.at, share.partition("(")[0])
    yield SetArgument(loader.at, "dataset", share, 0, holes=(loader.dataset,))
    if loader.keeps_order:
        yield DropArgument(loader.at, "sampler", 3)  # it would count the samples of the whole set
    if not context.options.batch_of_process:
        whole, imports = context.share(loader.at, loader.batch_text)
        yield from imports
        yield SetArgument(loader.at, "batch_size", whole, 1, holes=(loader.batch,))
    if loader.workers is not None and loader.workers_text != "0":
        workers, imports = context.share(loader.at, loader.workers_text)
        yield from imports
        yield SetArgument(loader.at, "num_workers", workers, 5, holes=(loader.workers,))
    yield from _bare_calls(context, loop)
    for meters in loop.meters:
        yield from gathering(context, meters)


def _in_shares(context: Context, loop: EvaluationLoop, listings: list[Span]) -> Iterator[Edit]:
    helper, given = "in_shares", ""
    if context.accelerate:
        name, imports = context.processes(loop.at)
        yield from imports
        helper, given = "in_process_shares", f"{name}, "
    yield context.helper(loop.at, helper)
    if may_keep_statistics(context.program):
        yield from _synchronised(context, loop, tuple(dict.fromkeys(map(context.program.text, loop.averaged))))
    for listing in listings:
        yield context.helper(listing, "from_rank_zero")
        yield Replace(listing, "from_rank_zero($0)", (listing,))
    for call in loop.averaged:
        yield Replace(call, f"{helper}({given}$0)", (call,))


def _synchronised(context: Context, loop: EvaluationLoop, networks: tuple[str, ...]) -> Iterator[Edit]:
    """Rank 0's BatchNorm statistics for all: those that DataParallel kept."""
    sync = "sync_buffers({})\n"
    if context.accelerate:
        broadcast, imports = context.module(loop.at, "accelerate.utils.broadcast")
        yield from imports
        sync = f"{broadcast}(list({{}}.buffers()))  # the main process's statistics, as under DataParallel\n"
    else:
        yield context.helper(loop.at, "sync_buffers")
    yield InsertBefore(loop.at, "".join(sync.format(network) for network in networks))


RULE = Rule(
    "MG702",
    "share-evaluation",
    check,
    __doc__ or "",
    hazards=("H09", "H39", "H42", "H101", "H103"),
    keeps=("metrics",),
    needs=("MG108", "MG201", "MG204"),
)
