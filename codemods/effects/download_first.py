"""A data set is fetched by one process; the others find it there.

All processes would fetch to the same place at the same moment, and read what another is still writing.  Rank 0 goes first,
then one process of every other machine, then all that are left, each of which finds everything there.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Guard
from migrator.facts.downloads import fetching_groups
from migrator.facts.syntax import Span
from migrator.facts.uniform import missing_file_test, waits_for_all


def check(context: Context) -> Iterator[Diagnostic]:
    program = context.program
    first_there: set[Span] = set()
    for module, group in fetching_groups(program):
        at = module.span(group[0])
        statements = tuple(module.span(s) for s in group)
        if not waits_for_all(program, at):
            missing = missing_file_test(program, at)  # then all processes look, one after the other
            statements = (missing,) if missing is not None else ()
        if statements and statements[0] in first_there:
            continue
        first_there.update(statements)
        if not statements:
            yield RULE.note(at, "processes may fetch this at the same moment: fetch it before the training is started")
            continue
        test, edits = context.rank_zero_first(at)
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
