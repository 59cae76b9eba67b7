"""The samples are dealt out anew in every epoch.

A DistributedSampler shuffles by its seed and the number of the epoch; without `set_epoch` every epoch has the order of the
first, with no message.  In the accelerate form prepared loaders count the epochs that they were read to their end; they are told
where a loop may be left before.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Edit, InsertBefore, Replace
from migrator.facts.loaders.early_exits import is_left_early


def check(context: Context) -> Iterator[Diagnostic]:
    training = context.sharing.training
    if training is None or context.sharing.way != "distributed" or training.epoch_first is None:
        return
    told = f"{training.loader_in_epoch_scope}.sampler"
    if context.accelerate:
        counts = training.loop is not None and not is_left_early(context.program, training.loop)
        if counts and not context.options.batch_of_process:
            return
        told = training.loader_in_epoch_scope  # the prepared loader
    number, edits = training.epoch_name, list[Edit]()
    if training.epoch_unnamed is not None:
        number = context.program.free_name("epoch", training.epoch_unnamed)
        edits.append(Replace(training.epoch_unnamed, number))
    line = f"{told}.set_epoch({number})\n"
    yield RULE.converted(
        training.epoch_first,
        "without this every epoch has the order of the first",
        *edits,
        InsertBefore(training.epoch_first, line),
    )


RULE = Rule("MG202", "set-epoch", check, __doc__ or "", hazards=("H08",), keeps=("trajectory",), needs=("MG201",))
