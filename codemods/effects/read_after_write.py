"""What one process wrote is not read by the others before it is there.

Files are written by rank 0 alone; the other processes pass the writing by and would come to the reading first, to a file that is
missing, old or half written.  They wait in front of it.  What one process removes afterwards it removes when all have read it.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import InsertBefore
from migrator.facts.effects.file_questions import agreed_caches
from migrator.facts.effects.once import once_groups
from migrator.facts.effects.read_back import read_backs, removals_after
from migrator.facts.processes.alone import run_by_one
from migrator.facts.processes.uniform import waits_for_all


def check(context: Context) -> Iterator[Diagnostic]:
    if context.program.is_joined:
        return  # an earlier conversion has seen to it
    alone = run_by_one(context.program)
    guarded = [group.statements[0] for group in once_groups(context.program, frozenset({"remove"}))[0]]
    answered = agreed_caches(context.program)  # whoever finds the file finds it whole
    for place in read_backs(context.program):
        if any(one.contains(place.at) for one in alone) or any(one.contains(place.at) for one in answered):
            continue
        module = context.program.module_at(place.at)
        if module.is_test_at(place.statement) or not waits_for_all(context.program, place.statement):
            yield RULE.note(
                place.at,
                f"other processes may read {place.text} here before rank 0 has written it, or see an older one",
            )
            continue
        _, imports = context.processes(place.at)
        yield RULE.converted(
            place.at,
            "this file is written by one process; the others wait until it is there",
            *imports,
            InsertBefore(place.statement, context.barrier(place.statement), first=True),
        )
        for removal in removals_after(context.program, place):
            statement = next((one for one in guarded if one.contains(removal)), removal)
            if waits_for_all(context.program, statement):
                yield RULE.converted(
                    statement,
                    "one process removes this; it waits until the others have read it",
                    *imports,
                    InsertBefore(statement, context.barrier(statement)),
                )


RULE = Rule("MG506", "read-after-write", check, __doc__ or "", hazards=("H95",), keeps=("once",))
