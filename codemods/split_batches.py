"""Each process loads its share of the batches that the program's own sampler makes.

A sampler of the program's own (weights, subsets, identities) decides which samples come together; replacing it would change
the training.  Rank 0 draws the batches of an epoch, and every process loads its part of each: a contiguous chunk, as
DataParallel cut it.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace


def check(context: Context) -> Iterator[Diagnostic]:
    training = context.sharing.training
    if training is None or context.sharing.way != "batch":
        return
    for loader in training.loaders:
        yield RULE.converted(
            loader.at,
            "the program's batches stay; each process loads its part of each",
            context.helper(loader.at, "split_batches"),
            Replace(loader.at, "split_batches($0)", (loader.at,)),
        )
    yield RULE.note(
        training.loaders[0].at,
        "a batch that does not divide repeats up to world size - 1 of its samples (--sampling call has no such difference)",
    )


RULE = Rule("MG204", "split-batches", check, __doc__ or "", hazards=("H10", "H11", "H12"), keeps=("trajectory",))
