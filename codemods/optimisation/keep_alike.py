"""What is trained outside the wrapped model stays the same on all processes.

Where a head or a criterion with parameters is not part of the wrapped model, every process computes its gradients by itself.
They are equal in exact arithmetic, but GPU kernels may round otherwise from run to run, and nothing would bring the processes
together again.  Before each step of such an optimizer all take rank 0's gradients.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import InsertAfter
from migrator.facts.training.outside import outside_optimizers


def check(context: Context) -> Iterator[Diagnostic]:
    training = context.sharing.training
    whole = context.sharing.way == "call" or (training is not None and training.whole is not None)
    if not whole or context.program.is_joined:
        return
    for place in outside_optimizers(context.program):
        yield RULE.converted(
            place.at,
            "some of these parameters are outside the wrapped model: all processes take rank 0's gradients",
            context.helper(place.at, "keep_alike"),
            InsertAfter(place.statement, f"keep_alike({place.note})\n"),
        )


RULE = Rule("MG407", "keep-alike", check, __doc__ or "", hazards=("H29",), keeps=("trajectory",), needs=("MG302",))
