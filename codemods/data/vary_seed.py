"""Processes draw splits and first weights alike, and augmentation and dropout each for itself.

With one seed everywhere all processes would crop and flip their samples in the same way.  The seeds part after everything
that must be equal has been made, just before the epochs begin; rank 0 goes on as the original did.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Edit, InsertBefore
from migrator.facts.python.syntax import Span


def check(context: Context) -> Iterator[Diagnostic]:
    training = context.sharing.training
    if context.sharing.way == "call" and context.options.seed_policy == "same" and context.program.wraps:
        at = context.program.wraps[0].at
        yield RULE.note(
            at, "--seed-policy same: whole batches are equal anyway; dropout is each process's own, as before"
        )
    if training is None or context.sharing.way not in ("distributed", "batch") or context.options.seed_policy == "same":
        return
    for loop in dict.fromkeys(one.epoch_loop for one in (training, *training.others)):
        if loop is not None:
            yield _parted(context, loop)
    for place in training.drawn[:1]:
        message = "each process draws these rows for its own samples, from a seed of its own, as it does for dropout"
        yield RULE.note(place.at, message)


def _parted(context: Context, at: Span) -> Diagnostic:
    helper, given = "vary_seed_by_rank", ""
    imports: tuple[Edit, ...] = ()
    if context.accelerate:
        helper = "vary_seed_by_process"
        given, imports = context.processes(at)
    return RULE.converted(
        at,
        "from here on each process augments its own samples in its own way",
        *imports,
        context.helper(at, helper),
        InsertBefore(at, f"{helper}({given})\n"),
    )


RULE = Rule(
    "MG203",
    "vary-seed",
    check,
    __doc__ or "",
    hazards=("H11", "H17", "H18"),
    keeps=("trajectory",),
    needs=("MG201", "MG204"),
)
