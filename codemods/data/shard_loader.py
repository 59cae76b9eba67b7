"""Each process reads its own share of the training data, and all shares together make the original's batches.

A DistributedSampler deals out the samples; the loader's batch is divided, so that the batch size of the command line, the
learning rate and the schedule keep their meaning.  Loader workers are divided too: they are the machine's, not the process's.
In the accelerate form `prepare` (MG305) gives each process its part of every batch.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from codemods.optimisation.larger_batch import grows
from migrator.edits import DropArgument, Edit, InsertBefore, Remove, Replace, SetArgument
from migrator.facts.loaders.none_sampler import NoneSampler, none_sampler
from migrator.facts.training.training import Loader

_REFILL = (
    "where the number of samples does not divide by the batch, accelerate fills an epoch's last batch up with samples from"
    " the epoch's beginning (--sampling call has no such difference, nor has a loader with drop_last=True)"
)
_CUT_OFF = "; their rows are cut off before the loss, but BatchNorm and what the model itself adds up still see them"


def check(context: Context) -> Iterator[Diagnostic]:
    training = context.sharing.training
    if training is None or context.sharing.way != "distributed":
        return
    first = training.loaders[0]
    if context.accelerate:
        for loader in training.loaders:
            if loader.workers is not None and loader.workers_text != "0":
                reason = "workers are the machine's, not the process's"
                yield RULE.converted(loader.at, reason, *_workers(context, loader), optional=True)
        if first.drop_last != "True":
            yield RULE.note(first.at, _REFILL + (_CUT_OFF if training.whole is not None else ""))
        return
    for loader in training.loaders:
        yield RULE.converted(loader.at, "each process loads its share of every batch", *_edits(context, loader))
    if first.drop_last in (None, "False"):
        yield RULE.note(
            first.at,
            "where the number of samples does not divide, an epoch repeats up to world size - 1 of them in its last batch"
            " (--sampling call has no such difference)",
        )


def _edits(context: Context, loader: Loader) -> Iterator[Edit]:
    sampler, imports = context.module(loader.at, "torch.utils.data.distributed.DistributedSampler")
    torch, more = context.module(loader.at, "torch")
    _, third = context.dist(loader.at)
    yield from (*imports, *more, *third)
    dataset = loader.dataset_text
    if loader.dataset_is_call:
        # A data set that is made in the call would be made twice: it gets a name first.
        dataset = context.program.free_name("train_set", loader.at)
        yield InsertBefore(loader.statement, f"{dataset} = $0\n", holes=(loader.dataset,))
        yield Replace(loader.dataset, dataset)
    none = none_sampler(context.program, loader.at, loader.statement) if loader.shuffle_keyword else None
    shuffle = context.program.text(loader.shuffle) if loader.shuffle is not None else ""
    made = f"{sampler}({dataset}, seed={torch}.initial_seed()"
    if loader.shuffled is None and shuffle and (none is None or shuffle != f"{none.name} is None"):
        made += f", shuffle={shuffle}"
    if loader.drop_last not in (None, "False"):
        made += f", drop_last={loader.drop_last}"
    if loader.sampler is not None:
        yield Replace(loader.sampler, f"{made})")
    elif none is not None:
        yield from _in_place_of_none(loader, none, f"{made})")
    else:
        yield from _as_a_new_name(context, loader, f"{made})")
    if loader.batch is not None and not grows(context):
        yield context.helper(loader.at, "local_batch")
        yield SetArgument(loader.at, "batch_size", "local_batch($0)", 1, holes=(loader.batch,))
    if loader.workers is not None and loader.workers_text != "0":
        yield from _workers(context, loader)


def _in_place_of_none(loader: Loader, none: NoneSampler, made: str) -> Iterator[Edit]:
    if none.is_beside and not loader.dataset_is_call:
        yield Replace(none.value, made)
    else:
        yield Remove(none.statement)
        yield InsertBefore(loader.statement, f"{none.name} = {made}\n")
    yield DropArgument(loader.at, "shuffle", 2)


def _as_a_new_name(context: Context, loader: Loader, made: str) -> Iterator[Edit]:
    name = context.program.free_name("train_sampler", loader.at)
    yield InsertBefore(loader.statement, f"{name} = {made}\n")
    if loader.has_none_sampler and loader.shuffle_keyword:
        yield DropArgument(loader.at, "shuffle", 2)
        yield SetArgument(loader.at, "sampler", name, 3)
    elif loader.shuffle_keyword:
        yield SetArgument(loader.at, "shuffle", name, rename="sampler")
    else:
        yield SetArgument(loader.at, "shuffle", "False", 2)
        yield SetArgument(loader.at, "sampler", name, 3)


def _workers(context: Context, loader: Loader) -> Iterator[Edit]:
    assert loader.workers is not None
    text, imports = context.share(loader.at, loader.workers_text)
    yield from imports
    yield SetArgument(loader.at, "num_workers", text, 5, holes=(loader.workers,))


RULE = Rule(
    "MG201",
    "shard-loader",
    check,
    __doc__ or "",
    hazards=("H01", "H02", "H06", "H07", "H14", "H16", "H19"),
    keeps=("trajectory",),
    needs=("MG401",),
)
