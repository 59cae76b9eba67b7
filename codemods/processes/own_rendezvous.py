"""Where the processes meet is said by the launcher, and by nobody else.

torchrun gives every process its rank, the number of processes and a port that is free.  A program that sets these variables
itself, before the processes have met, sends them to a port at which nobody waits.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Remove
from migrator.facts.processes.rendezvous import launcher_variables_set


def check(context: Context) -> Iterator[Diagnostic]:
    for at in launcher_variables_set(context.program):
        whole = context.program.module_at(at).emptied_by(at)
        yield RULE.converted(at, "the launcher says where and how many the processes are", Remove(whole))


RULE = Rule("MG106", "own-rendezvous", check, __doc__ or "", hazards=("H82",), keeps=("lock-step",))
