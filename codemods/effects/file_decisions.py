"""A decision about a file that the program makes itself is rank 0's.

Between two processes that ask whether a folder is there, one of them may have made it: the second would take the other branch,
leave the program or wait for an answer that nobody gives.  Of a cache it would read the half that is written.  Rank 0 asks, and
all go the same way.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace
from migrator.facts.effects.file_questions import file_questions


def check(context: Context) -> Iterator[Diagnostic]:
    for question in file_questions(context.program):
        at = question.at
        if not question.by_all:
            yield RULE.note(at, "processes may decide differently: another one may just have made this file")
            continue
        yield RULE.converted(
            at,
            "one process writes this cache, so rank 0 looks for all: nobody reads the half that is written"
            if question.cache
            else "the program makes this itself, so rank 0 looks for all",
            context.helper(at, "from_rank_zero"),
            Replace(at, "from_rank_zero($0)", (at,)),
        )


RULE = Rule("MG511", "file-decisions", check, __doc__ or "", hazards=("H87", "H93", "H95"), keeps=("lock-step",))
