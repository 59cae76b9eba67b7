"""The samples of an epoch are counted over all processes.

`len(loader.sampler)` is what sums of an epoch are divided by.  The sampler of a loader that shares its data deals out one
process's samples, and a loader that is given batches has a sampler that goes over the whole data set, subset or not.  What
is meant is asked of the data set, or of the program's own sampler, which stands below the one that splits batches.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace


def check(context: Context) -> Iterator[Diagnostic]:
    training = context.sharing.training
    if training is None or context.sharing.way not in ("distributed", "batch"):
        return
    for place in training.sampler_lengths:
        if context.sharing.way == "distributed":
            asked = f"{place.text}.dataset"
        elif place.note:  # a loader that is given batches has a sampler over its data set, before and after
            continue
        else:
            asked = f"{place.text}.batch_sampler.batch_sampler.sampler"
        yield RULE.converted(
            place.at,
            "an epoch has the samples of all processes",
            Replace(place.at, asked),
        )


RULE = Rule("MG209", "sampler-length", check, __doc__ or "", hazards=("H09", "H16"), keeps=("metrics",))
