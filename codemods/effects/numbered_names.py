"""All processes see the same files when they choose the name of a new folder.

A program that numbers its runs looks at the folders that exist.  The process that comes second would see the folder of the first
and take the next number.  Rank 0 looks, and its answer goes to all.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace
from migrator.facts.effects.numbered import numbered_names
from migrator.facts.processes.alone import run_by_one
from migrator.facts.processes.uniform import waits_for_all


def check(context: Context) -> Iterator[Diagnostic]:
    alone = run_by_one(context.program)
    for place in numbered_names(context.program):
        if any(one.contains(place.at) for one in alone):
            continue
        if waits_for_all(context.program, place.statement):
            yield RULE.converted(
                place.at,
                "a process that comes second would find the first one's folder and choose another name",
                context.helper(place.at, "from_rank_zero"),
                Replace(place.at, "from_rank_zero($0)", (place.at,)),
            )
        else:
            yield RULE.question(place.at, "processes may choose different names here: let rank 0 choose for all")


RULE = Rule("MG512", "numbered-names", check, __doc__ or "", hazards=("H93",), keeps=("once",))
