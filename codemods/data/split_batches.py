"""Each process loads its share of the batches that the program's own sampler makes.

A sampler of the program's own (weights, subsets, identities) decides which samples come together; replacing it would change
the training.  Rank 0 draws the batches of an epoch, and every process loads its part of each: a contiguous chunk, as
DataParallel cut it.  With `--batch per-gpu` it loads every world size-th batch instead, whole.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from codemods.optimisation.larger_batch import grows
from migrator.edits import Replace
from migrator.facts.training.training import Loader


def check(context: Context) -> Iterator[Diagnostic]:
    training = context.sharing.training
    if training is None or context.sharing.way != "batch":
        return
    if context.accelerate:
        yield from _of_process(context, training.loaders)
        return
    dealt = grows(context)
    helper = "deal_batches" if dealt else "split_batches"
    share = "its share of them" if dealt else "its part of each"
    for loader in training.loaders:
        yield RULE.converted(
            loader.at,
            f"the program's batches stay; each process loads {share}",
            context.helper(loader.at, helper),
            Replace(loader.at, f"{helper}($0)", (loader.at,)),
        )
    yield RULE.note(
        training.loaders[0].at,
        "where the number of batches does not divide, an epoch repeats up to world size - 1 of them"
        if dealt
        else "a batch that does not divide repeats up to world size - 1 of its samples (--sampling call has no such difference)",
    )


def _of_process(context: Context, loaders: list[Loader]) -> Iterator[Diagnostic]:
    """In accelerate's form: such a loader is not prepared, so that no batch is filled up with samples of another."""
    for loader in loaders:
        name, imports = context.processes(loader.at)
        yield RULE.converted(
            loader.at,
            "the program's batches stay; each process loads its part of each",
            *imports,
            context.helper(loader.at, "process_batches"),
            Replace(loader.at, f"process_batches({name}, $0)", (loader.at,)),
        )
    yield RULE.note(
        loaders[0].at,
        "a batch that does not divide repeats up to one sample less than there are processes (--sampling call has no such"
        " difference)",
    )


RULE = Rule("MG204", "split-batches", check, __doc__ or "", hazards=("H10", "H11", "H12"), keeps=("trajectory",))
