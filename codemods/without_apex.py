"""Mixed precision does not depend on apex.

apex.amp is not maintained any more, and torch has had its own since 1.6: O1 is autocast with a scaler, `--amp fp16`.  The user
chooses, because apex's other levels are other training; then its calls go, and MG402 puts torch's in their places.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Edit, InsertAfter, Remove, Replace
from migrator.facts.precision import ApexUse, apex_imports, apex_uses
from migrator.facts.steps import Step, read_steps
from migrator.facts.syntax import Span


def apex_left(context: Context) -> bool:
    """True when apex stays, because the user has not chosen or a use of it was not understood."""
    uses = apex_uses(context.program)
    return bool(uses) and (context.options.amp == "keep" or context.accelerate or any(use.odd for use in uses))


def check(context: Context) -> Iterator[Diagnostic]:
    wanted, uses = context.options.amp, apex_uses(context.program)
    if not uses:
        return
    if wanted == "keep" or context.accelerate:
        yield RULE.question(
            uses[0].at, "apex.amp is not maintained any more: choose --amp fp16 (what its O1 does), bf16 or off"
        )
        return
    odd = [use for use in uses if use.odd]
    for use in odd:
        yield RULE.question(use.at, f"apex was not taken out: {use.odd}")
    if odd:
        return
    steps = {step.apex: step for step in read_steps(context.program)[0] if step.apex is not None}
    for use in uses:
        yield RULE.converted(use.at, f"--amp {wanted} takes the place of apex", *_edits(context, use, steps))
    for statement in apex_imports(context.program):
        yield RULE.converted(statement, "apex is not needed any more", Remove(statement))


def _edits(context: Context, use: ApexUse, steps: dict[Span, Step]) -> Iterator[Edit]:
    program = context.program
    if use.kind == "master_params" and use.argument is not None:
        yield Replace(use.at, '[p for group in $0.param_groups for p in group["params"]]', (use.argument,))
        return
    yield Remove(use.statement if use.kind == "scale_loss" else program.module_at(use.at).emptied_by(use.statement))
    scaled_by_torch = context.options.amp == "fp16" and use.statement in steps
    if use.kind == "scale_loss" and use.argument is not None and not scaled_by_torch:
        loss = program.text(use.argument)
        yield InsertAfter(use.statement, f"{loss}.backward()\n")


RULE = Rule(
    "MG404",
    "without-apex",
    check,
    __doc__ or "",
    applicability="unsafe",
    hazards=("H33",),
    sources=("https://github.com/NVIDIA/apex", "https://docs.pytorch.org/docs/stable/amp.html"),
    why="apex and torch choose the type of each operation by lists of their own, so results are close, not equal.",
    keeps=("trajectory",),
    needs=("MG402",),
    together=True,
)
