"""With --accumulate, gradients are added up over batches in accelerate's way.

Without the flag the program's own accumulation stays: `accelerator.backward` then divides by nothing.  With it the program's
division goes, because `backward` divides; gradients are not exchanged between steps, which is faster; and an epoch's last,
incomplete window takes a step as well, which the program did not do: another training where the window does not divide.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Edit, Guard, InsertBefore, Remove, Replace
from migrator.facts.devices.placing import needless_moves
from migrator.facts.steps.accumulating import Accumulation, read_accumulation


def check(context: Context) -> Iterator[Diagnostic]:
    training = context.sharing.training
    if not context.accelerate or not context.options.accumulate:
        return
    wraps = context.program.wraps
    if training is None or context.sharing.way != "distributed":
        if wraps:
            yield RULE.question(wraps[0].at, "--accumulate was not applied: the loader of this program is not prepared")
        return
    found = accumulation(context)
    if found is None or isinstance(found, str):
        at = training.loop or wraps[0].at
        yield RULE.question(at, f"--accumulate was not applied: {found or 'every batch takes a step'}")
        return
    name = context.accelerator(found.loop)
    if not name:
        yield RULE.question(
            found.loop, "--accumulate was not applied: the Accelerator could not be handed to this loop"
        )
        return
    edits: list[Edit] = [InsertBefore(found.loop, f"{name}.gradient_accumulation_steps = {found.number}\n")]
    moved = [move.at for move in needless_moves(context.program, training)]
    kept = tuple(statement for statement in found.statements if statement not in moved)
    edits.append(Guard(found.loop, kept, f"{name}.accumulate({found.model})", "with"))
    edits.append(Replace(found.test, f"{name}.sync_gradients"))
    if found.divided is not None and not found.at_backward:
        edits.append(Replace(found.divided[0], "$0", (found.divided[1],)))
    if found.divided_in_place is not None:
        edits.append(Remove(found.divided_in_place))
    yield RULE.converted(found.loop, "gradients are exchanged when a step is taken, and averaged by accelerate", *edits)
    yield RULE.note(found.test, "an epoch's last window takes a step, also where it is not complete")


def accumulation(context: Context) -> Accumulation | str | None:
    """What is to become accelerate's own accumulation; None without the flag."""
    training = context.sharing.training
    if not context.options.accumulate or training is None or context.sharing.way != "distributed":
        return None
    return read_accumulation(context.program, training)


RULE = Rule(
    "MG412",
    "accumulate",
    check,
    __doc__ or "",
    applicability="unsafe",
    hazards=("H112", "H113"),
    sources=("https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation",),
    why="With --accumulate an epoch's last, incomplete window takes a step of its own.",
    keeps=("trajectory",),
)
