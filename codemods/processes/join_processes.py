"""Every process joins the group once, before anything else happens, and leaves it at the end.

torchrun starts the program once per GPU; rank, world size and device come from its environment.  The device is bound
before any CUDA call, so that bare `.cuda()` calls mean this process's own GPU.  Without torchrun the program is a group of
one, so that every path of the code stays the same.  Processes other than rank 0 print nowhere: a `print` may stand beside
anything, and guarding each would be a larger diff for the same result.
"""

from collections.abc import Iterator
from textwrap import indent

from codemods.base import Context, Diagnostic, Rule
from codemods.processes.group_timeout import joining
from migrator.edits import Edit, InsertAfter, InsertBefore, Replace
from migrator.facts.processes.endings import endings
from migrator.facts.python.syntax import Span

_BLOCKS = ("for ", "while ", "with ", "try:", "if ")


def check(context: Context) -> Iterator[Diagnostic]:
    entry = context.program.entry
    if context.accelerate or context.program.is_joined:
        return
    if entry.first is None or entry.last is None:
        at = context.program.wraps[0].at
        yield RULE.question(
            at, "this file only defines things: convert the script that runs it, so that processes can be joined there"
        )
        return
    dist, imports = context.dist(entry.first)
    start, more = joining(context, entry.first)
    helpers = [context.helper(entry.first, "setup_distributed")]
    if context.sharing.way == "call" or not context.program.seeds_itself:
        start += "share_random_numbers()\n"
        helpers.append(context.helper(entry.first, "share_random_numbers"))
    above = context.program.module_at(entry.first).line_text(max(entry.first.line - 1, 1)).lstrip()
    if entry.kind != "early" and above.startswith("#"):
        start += "\n"  # the comment is about what follows
    if entry.kind == "early":
        start = f'\nif __name__ == "__main__":\n{indent(start, "    ")}\n'
    yield RULE.converted(
        entry.first,
        "each process joins the group that torchrun describes, bound to its own GPU",
        *imports,
        *more,
        *helpers,
        InsertBefore(entry.first, start),
    )
    if not any(ending.falls for ending in endings(context.program)):
        yield RULE.converted(
            entry.last, "the group is left when the work is done", *imports, *_leave(context, entry.last, dist)
        )
    for place in context.program.acts_on_import:
        yield RULE.question(
            place.at,
            f"`{place.text}` runs while this module is imported, before the processes have met: move it into a function",
        )


def _leave(context: Context, last: Span, dist: str) -> tuple[Edit, ...]:
    """Leave the group after the last statement, or before the one that ends the program."""
    leave = f"{dist}.destroy_process_group()\n"
    status = context.program.exit_status(last)
    if status is None:
        block = context.program.text(last).startswith(_BLOCKS)
        return (InsertAfter(last, f"\n{leave}" if block else leave),)  # a script without a function ends in its loop
    if status.at == status.statement:
        return (InsertBefore(last, leave, last=True),)
    return InsertBefore(last, f"status = {status.text}\n{leave}", last=True), Replace(status.at, "status")


RULE = Rule(
    "MG101",
    "join-processes",
    check,
    __doc__ or "",
    hazards=("H71", "H77", "H79", "H82", "H84", "H90", "H91"),
    keeps=("lock-step",),
    together=True,
)
