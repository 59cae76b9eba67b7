"""What a step draws once is the same on all processes.

How much two samples are mixed, or which examples an evaluation looks at, was drawn once for the whole batch.  Processes draw
numbers of their own by then (MG203), so rank 0's draw is sent to all.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace


def check(context: Context) -> Iterator[Diagnostic]:
    training = context.sharing.training
    if training is None or context.sharing.way not in ("distributed", "batch"):
        return
    for place in training.drawn_once:
        yield RULE.converted(
            place.at,
            "each process would draw another one",
            context.helper(place.at, "from_rank_zero"),
            Replace(place.at, "from_rank_zero($0)", (place.at,)),
        )


RULE = Rule("MG210", "drawn-once", check, __doc__ or "", hazards=("H22",), keeps=("trajectory", "lock-step"))
