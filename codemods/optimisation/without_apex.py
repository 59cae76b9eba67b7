"""Mixed precision does not depend on apex.

apex.amp is not maintained any more, and torch has had its own since 1.6.  Its calls go, and MG402 puts torch's in their places:
level O1 is autocast with a scaler (`--amp fp16`), O0 is full precision (`--amp off`).  The user chooses where the level is not
written in the program, where an option of the program switches apex on, and for O2 and O3, which keep the weights in half
precision and have no equal in torch.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Edit, InsertAfter, Remove, Replace
from migrator.facts.devices.precision import ApexUse, apex_imports, apex_level, apex_uses
from migrator.facts.python.syntax import Span
from migrator.facts.steps.steps import Step, read_steps

_LEVELS = {"O0": "off", "O1": "fp16"}


def wanted_precision(context: Context) -> str:
    """What the user wants; with `keep`, what apex's level says where nothing else decides."""
    if context.options.amp != "keep" or not apex_uses(context.program):
        return context.options.amp
    level, test = apex_level(context.program)
    return _LEVELS.get(level, "keep") if not test else "keep"


def apex_left(context: Context) -> bool:
    """True when apex stays, because the user has not chosen or a use of it was not understood."""
    uses = apex_uses(context.program)
    return bool(uses) and (wanted_precision(context) == "keep" or context.accelerate or any(use.odd for use in uses))


def check(context: Context) -> Iterator[Diagnostic]:
    wanted, uses = wanted_precision(context), apex_uses(context.program)
    if not uses:
        return
    if wanted == "keep" or context.accelerate:
        yield RULE.question(uses[0].at, f"apex.amp is not maintained any more: {_choices(context)}")
        return
    odd = [use for use in uses if use.odd]
    for use in odd:
        yield RULE.question(use.at, f"apex was not taken out: {use.odd}")
    if odd:
        return
    steps = {step.apex: step for step in read_steps(context.program)[0] if step.apex is not None}
    for use in uses:
        how = {"off": "full precision", "fp16": "torch's float16", "bf16": "torch's bfloat16"}[wanted]
        yield RULE.converted(use.at, f"{how} takes the place of apex", *_edits(context, use, wanted, steps))
    for statement in apex_imports(context.program):
        yield RULE.converted(statement, "apex is not needed any more", Remove(statement))


def _choices(context: Context) -> str:
    level, test = apex_level(context.program)
    if level in ("O2", "O3"):
        return (
            f"its {level} keeps the weights in float16, which torch has no equal of: choose --amp fp16 or bf16 (float32 "
            "weights, more memory), or off"
        )
    chosen = (
        f"its {level} is --amp {_LEVELS[level]}" if level in _LEVELS else "--amp fp16 is what its O1 does, off its O0"
    )
    holds = f"; it will hold whatever `{' '.join(test.split())}` says" if test else ""
    return f"choose --amp fp16, bf16 or off ({chosen}{holds})"


def _edits(context: Context, use: ApexUse, wanted: str, steps: dict[Span, Step]) -> Iterator[Edit]:
    program = context.program
    if use.kind == "master_params" and use.argument is not None:
        yield Replace(use.at, '[p for group in $0.param_groups for p in group["params"]]', (use.argument,))
        return
    yield Remove(use.statement if use.kind == "scale_loss" else program.module_at(use.at).emptied_by(use.statement))
    scaled_by_torch = wanted == "fp16" and use.statement in steps
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
