"""One process prints, through the Accelerator.

Where every `print` of the program stands where the Accelerator is known by name, each becomes `accelerator.print`.  Otherwise
the standard output of the other processes is closed (MG104): the same result, and one line.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace
from migrator.facts.evaluation.prints import plain_prints
from migrator.facts.python.syntax import Span


def check(context: Context) -> Iterator[Diagnostic]:
    for at in accelerator_prints(context) or ():
        text = f"{context.accelerator(at)}.print"
        yield RULE.converted(at, "one process prints", Replace(at, text), optional=True)


def accelerator_prints(context: Context) -> list[Span] | None:
    """The `print` of every call; None where one of them, or something else that prints, cannot be the Accelerator's."""
    program = context.program
    if not context.accelerate or not program.trains or program.entry.kind in ("early", "library") or program.is_joined:
        return None
    found, entry = plain_prints(program), program.entry_module.path
    for one in found or ():
        known = context.accelerator(one.at) and (one.at.path != entry or context.is_after_start(one.at))
        if not known or not one.in_main:
            return None
    return None if found is None else [one.at for one in found]


RULE = Rule("MG514", "print-once", check, __doc__ or "", hazards=("H91",), keeps=("once",), needs=("MG104",))
