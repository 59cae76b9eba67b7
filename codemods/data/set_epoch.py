"""The samples are dealt out anew in every epoch.

A DistributedSampler shuffles by its seed and the number of the epoch; without `set_epoch` every epoch has the order of the
first, with no message.  In the accelerate form prepared loaders count their epochs themselves.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import InsertBefore


def check(context: Context) -> Iterator[Diagnostic]:
    training = context.sharing.training
    if context.accelerate or training is None or context.sharing.way != "distributed" or training.epoch_first is None:
        return
    line = f"{training.loader_in_epoch_scope}.sampler.set_epoch({training.epoch_name})\n"
    yield RULE.converted(
        training.epoch_first,
        "without this every epoch has the order of the first",
        InsertBefore(training.epoch_first, line),
    )


RULE = Rule("MG202", "set-epoch", check, __doc__ or "", hazards=("H08",), keeps=("trajectory",), needs=("MG201",))
