"""A data set is fetched by one process; the others find it there.

All processes would fetch to the same place at the same moment, and read what another is still writing.  Rank 0 goes first,
then one process of every other machine, then all that are left, each of which finds everything there.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Guard
from migrator.facts.processes.turns import fetching_places
from migrator.facts.python.syntax import Span


def check(context: Context) -> Iterator[Diagnostic]:
    first_there: set[Span] = set()
    for at, statements in fetching_places(context.program):
        if statements and statements[0] in first_there:
            continue
        first_there.update(statements)
        if not statements:
            yield RULE.note(at, "processes may fetch this at the same moment: fetch it before the training is started")
            continue
        test, edits = context.rank_zero_first(statements[0])
        yield RULE.converted(
            at,
            "one process fetches the data, and the others find it there",
            *edits,
            Guard(statements[0], statements, test, "with"),
        )


RULE = Rule(
    "MG510",
    "download-first",
    check,
    __doc__ or "",
    hazards=("H20",),
    sources=("pytorch/pytorch#68320", "Lightning-AI/pytorch-lightning#17732"),
    keeps=("once",),
)
