"""Every process joins the group once, before anything else happens, and leaves it at the end.

torchrun starts the program once per GPU; rank, world size and device come from its environment.  The device is bound
before any CUDA call, so that bare `.cuda()` calls mean this process's own GPU.  Without torchrun the program is a group of
one, so that every path of the code stays the same.  Processes other than rank 0 print nowhere: a `print` may stand beside
anything, and guarding each would be a larger diff for the same result.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import InsertAfter, InsertBefore


def check(context: Context) -> Iterator[Diagnostic]:
    entry = context.program.entry
    if entry.first is None or entry.last is None:
        at = context.program.wraps[0].at
        yield RULE.question(
            at, "this file only defines things: convert the script that runs it, so that processes can be joined there"
        )
        return
    dist, imports = context.dist(entry.first)
    start = "setup_distributed()\n"
    helpers = [context.helper(entry.first, "setup_distributed")]
    if context.sharing.way == "call":
        start += "seed_alike()\n"
        helpers.append(context.helper(entry.first, "seed_alike"))
    yield RULE.converted(
        entry.first,
        "each process joins the group that torchrun describes, bound to its own GPU",
        *imports,
        *helpers,
        InsertBefore(entry.first, start),
    )
    yield RULE.converted(
        entry.last,
        "the group is left when the work is done",
        *imports,
        InsertAfter(entry.last, f"{dist}.destroy_process_group()\n"),
    )


RULE = Rule("MG101", "join-processes", check, __doc__ or "", hazards=("H71", "H77", "H79", "H82", "H84", "H90", "H91"))
