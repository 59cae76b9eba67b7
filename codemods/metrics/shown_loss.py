"""A figure that is shown while an epoch runs says whose it is.

Where batches are shared out as they are loaded, the loss of a step covers this process's share.  It is only shown, so it is
left alone: rank 0 prints its own, which is as good an estimate and W times noisier.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.facts.evaluation.shown_losses import shown_losses


def check(context: Context) -> Iterator[Diagnostic]:
    training = context.sharing.training
    if training is None or training.loop is None or training.whole is not None or context.sharing.way == "call":
        return
    for at in shown_losses(context.program, training.loop):
        yield RULE.note(at, "this shows the loss of rank 0's share of the batch, not of the whole batch")
        return  # one of them says it for all


RULE = Rule("MG703", "shown-loss", check, __doc__ or "", applicability="display-only", hazards=("H39",))
