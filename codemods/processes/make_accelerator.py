"""The Accelerator is made once, before anything else happens, and training is ended at the end.

`Accelerator(...)` joins the processes that the launcher started and binds each to its device.  Mixed precision is said
outright, so that nobody's configuration file or environment turns it on; `split_batches` keeps a loader's batch the batch
over all processes.  Where `print` cannot be the Accelerator's everywhere (MG514), the other processes print nowhere.
"""

from collections.abc import Iterator
from textwrap import indent

from codemods.base import Context, Diagnostic, Rule
from codemods.effects.print_once import accelerator_prints
from codemods.processes.accelerator import construction
from codemods.processes.trackers import trackers
from migrator.edits import AddImport, Edit, InsertAfter, InsertBefore, Replace
from migrator.facts.python.syntax import Span

_SILENCE = 'if not {0}.is_main_process:\n    {1}.stdout = open({2}.devnull, "w")  # one process speaks for all\n'
_OTHERWISE = (
    "`python {0}` runs it alone, `torchrun --standalone --nproc_per_node=gpu -- {0}` as well as the line below; without a GPU"
    " put ACCELERATE_USE_CPU=true before torchrun, or each process believes that it is alone"
)


def check(context: Context) -> Iterator[Diagnostic]:
    entry = context.program.entry
    if not context.accelerate or context.program.is_joined:
        return
    if entry.first is None or entry.last is None:
        at = context.program.wraps[0].at
        yield RULE.question(
            at, "this file only defines things: convert the script that runs it, so that the Accelerator is made there"
        )
        return
    name = context.accelerator(entry.first)
    made, needed = construction(context, entry.first)
    start = f"{name} = {made}\n"
    if accelerator_prints(context) is None:
        os, edits = context.module(entry.first, "os")
        sys, more = context.module(entry.first, "sys")
        # The program may import them further down.
        above = [AddImport(entry.first, f"import {one}") for one in ("os", "sys") if one in (os, sys)]
        start += _SILENCE.format(name, sys, os)
        needed += [*edits, *more, *above]
    if context.sharing.way == "call" or not context.program.seeds_itself:
        start += f"if {name}.num_processes > 1:\n    share_random_numbers()\n"
        needed.append(context.helper(entry.first, "share_random_numbers"))
    if entry.kind == "early":
        start = f'if __name__ == "__main__":\n{indent(start, "    ")}\n'
    yield RULE.converted(
        entry.first,
        "each process joins those that the launcher started, on a device of its own",
        *needed,
        InsertBefore(entry.first, start),
    )
    yield RULE.converted(entry.last, "the processes part when the work is done", *_leave(context, entry.last, name))
    yield from trackers(RULE, context)
    yield RULE.note(entry.first, _OTHERWISE.format(context.program.project.command))
    for place in context.program.acts_on_import:
        yield RULE.question(
            place.at,
            f"`{place.text}` runs while this module is imported, before the processes have met: move it into a function",
        )


def _leave(context: Context, last: Span, name: str) -> tuple[Edit, ...]:
    """End the training after the last statement, or before the one that ends the program."""
    leave = f"{name}.end_training()\n"
    status = context.program.exit_status(last)
    if status is None:
        return (InsertAfter(last, leave),)
    if status.at == status.statement:
        return (InsertBefore(last, leave),)
    return InsertBefore(last, f"status = {status.text}\n{leave}"), Replace(status.at, "status")


RULE = Rule(
    "MG104",
    "make-accelerator",
    check,
    __doc__ or "",
    hazards=("H01", "H108", "H116", "H117", "H118"),
    keeps=("lock-step",),
    together=True,
)
