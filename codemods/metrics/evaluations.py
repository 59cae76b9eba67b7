"""What an evaluation loop becomes: shared out, computed in parts, or whole on every process, with the same statistics."""

from collections.abc import Iterator

from codemods.base import Context
from migrator.edits import DropArgument, Edit, InsertAfter, InsertBefore, Replace, SetArgument
from migrator.facts.networks.statistics import may_keep_statistics
from migrator.facts.python.syntax import Span
from migrator.facts.training.training import EvaluationLoop, Meter

_HELPERS = {
    "ddp": {"object": "average_over_ranks", "sum": "sum_over_ranks", "mean": "mean_over_ranks"},
    "accelerate": {"object": "average_over_processes", "sum": "sum_over_processes", "mean": "mean_over_processes"},
}


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


def shared_out(context: Context, loop: EvaluationLoop) -> Iterator[Edit]:
    """Each process evaluates its own samples, and the figures of all are put together."""
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


def _bare_calls(context: Context, loop: EvaluationLoop) -> Iterator[Edit]:
    """Calls of the model itself, whose wrapper would make the processes wait for each other's batches."""
    models = tuple(dict.fromkeys(context.program.text(call) for call in loop.model_calls))
    if not context.accelerate:
        yield from synchronised(context, loop, models)
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
    yield from synchronised(context, loop, tuple(names.get(model, model) for model in models))
    for call in loop.model_calls:
        name = names.get(context.program.text(call))
        yield Replace(call, name) if name else Replace(call, f"{unwrap}($0)", (call,))


def in_shares(context: Context, loop: EvaluationLoop, listings: list[Span]) -> Iterator[Edit]:
    """Calls whose outputs are averaged over the devices compute a part of the batch each."""
    helper, given = "in_shares", ""
    if context.accelerate:
        name, imports = context.processes(loop.at)
        yield from imports
        helper, given = "in_process_shares", f"{name}, "
    yield context.helper(loop.at, helper)
    if may_keep_statistics(context.program):
        yield from synchronised(context, loop, tuple(dict.fromkeys(map(context.program.text, loop.averaged))))
    for listing in listings:
        yield context.helper(listing, "from_rank_zero")
        yield Replace(listing, "from_rank_zero($0)", (listing,))
    for call in loop.averaged:
        yield Replace(call, f"{helper}({given}$0)", (call,))


def synchronised(context: Context, loop: EvaluationLoop, networks: tuple[str, ...]) -> Iterator[Edit]:
    """Rank 0's BatchNorm statistics for all: those that DataParallel kept."""
    sync = "sync_buffers({})\n"
    if context.accelerate:
        broadcast, imports = context.module(loop.at, "accelerate.utils.broadcast")
        yield from imports
        sync = f"{broadcast}(list({{}}.buffers()))  # the main process's statistics, as under DataParallel\n"
    else:
        yield context.helper(loop.at, "sync_buffers")
    yield InsertBefore(loop.at, "".join(sync.format(network) for network in networks))
