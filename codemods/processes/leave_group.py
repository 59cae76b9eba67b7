"""The group is left wherever the program ends, not only after its last statement.

`sys.exit()` in a function, and runners such as absl's that never come back, end the program before its last statement is done.
A process that ends while it is still in the group may abort, or be reported as failed, after work that went well.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Edit, InsertAfter, InsertBefore
from migrator.facts.processes.endings import endings, late_effects


def check(context: Context) -> Iterator[Diagnostic]:
    program = context.program
    if context.accelerate or program.is_joined or program.entry.first is None or not program.trains:
        return
    for ending in endings(program):
        at = ending.statement
        dist, imports = context.dist(at)
        leave = f"{dist}.destroy_process_group()\n"
        if not ending.joined or program.is_shared(at):
            leave = f"if {dist}.is_initialized():\n    {leave}"
        edit: Edit = InsertAfter(at, leave) if ending.falls else InsertBefore(at, leave, last=True)
        yield RULE.converted(at, "the program ends here: the group is left first", *imports, edit)
    for at in late_effects(program):
        yield RULE.question(
            at,
            "this is run in every process, after the group has been left, where no process knows its rank: do it before the end",
        )


RULE = Rule("MG110", "leave-group", check, __doc__ or "", hazards=("H84",), keeps=("lock-step",), needs=("MG101",))
