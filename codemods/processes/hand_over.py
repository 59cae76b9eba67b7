"""Functions of other modules are given the Accelerator by their callers.

There is one Accelerator; a second one would know nothing of what the first has prepared.  The entry's own functions read its
name; functions of other modules take it as a parameter, where all of their calls are known, and objects keep it.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import AddParameter, Edit, InsertBefore, SetArgument
from migrator.facts.accelerate.handing import NAME, handed_functions


def check(context: Context) -> Iterator[Diagnostic]:
    if not context.accelerate or context.sharing.way not in ("distributed", "batch"):
        return
    for function in handed_functions(context.program):
        calls = [SetArgument(call, NAME, context.accelerator(call)) for call in function.calls]
        edits: list[Edit] = [AddParameter(function.head, NAME), *calls]
        if function.first is not None:
            edits.append(InsertBefore(function.first, f"{function.self_name}.{NAME} = {NAME}\n"))
        yield RULE.converted(function.head, f"{function.name} takes the Accelerator", *edits)


RULE = Rule("MG108", "hand-over", check, __doc__ or "", hazards=("H109",), keeps=("alone",))
