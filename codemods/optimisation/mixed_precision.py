"""Forward pass and loss are computed in half the bits where the user asks for it, and the step stays in full precision.

`--amp bf16` runs them under autocast in bfloat16, which has float32's range and needs nothing else; `--amp fp16` also scales
the loss, so that small gradients survive, and unscales them before they are clipped or taken.  Evaluation stays as it is.
A program that chooses its precision itself is changed where it does so (MG403).
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from codemods.optimisation.without_apex import apex_left, wanted_precision
from migrator.edits import Edit, Guard, InsertAfter, InsertBefore, Replace
from migrator.facts.precision import precision_calls
from migrator.facts.steps import OptimizerStep, Step, numpy_after, optimizer_steps, read_steps
from migrator.facts.syntax import Span

_DTYPES = {"bf16": "bfloat16", "fp16": "float16"}


def check(context: Context) -> Iterator[Diagnostic]:
    wanted, program = wanted_precision(context), context.program
    if (
        context.accelerate
        or wanted not in _DTYPES
        or not program.trains
        or precision_calls(program)
        or apex_left(context)
    ):
        return
    steps, unread = read_steps(program)
    taken = list(optimizer_steps(program))
    problems = [(place.at, place.note) for place in unread]
    problems += [(one.at, one.odd) for one in taken if one.odd and "depends" not in one.odd]
    if not steps or not taken:
        problems.append((program.wraps[0].at, "no step of training was found"))
    for step in steps:
        problems += [(at, f"numpy has no {_DTYPES[wanted]}: put .float() before") for at in numpy_after(program, step)]
    if problems:
        for at, note in problems:
            yield RULE.question(at, f"--amp {wanted} was not applied: {note}")
        return
    for step in {step.forward: step for step in steps}.values():
        yield _autocast(context, step, _DTYPES[wanted])
    if wanted == "fp16":
        yield from _scaled(context, steps, taken)


def _device(context: Context, at: Span) -> str:
    device = context.program.device_name(at)
    return f"{device}.type" if device else '"cuda" if torch.cuda.is_available() else "cpu"'


def _autocast(context: Context, step: Step, dtype: str) -> Diagnostic:
    torch, imports = context.module(step.loss, "torch")
    test = f"{torch}.autocast({_device(context, step.loss)}, dtype={torch}.{dtype})"
    reason = f"the model and the loss are computed in {dtype} where that is safe"
    return RULE.converted(step.forward[0], reason, *imports, Guard(step.forward[0], step.forward, test, "with"))


def _scaled(context: Context, steps: list[Step], taken: list[OptimizerStep]) -> Iterator[Diagnostic]:
    """One scaler for all losses, made where every epoch finds it; it looks for infinities before each step."""
    first = steps[0]
    torch, imports = context.module(first.loss, "torch")
    name = context.program.free_name("scaler", first.loss)
    for at in (*(step.loss for step in steps), *(one.at for one in taken)):
        if at.path != first.loss.path:
            yield RULE.question(at, "--amp fp16: this is in another file than the first loss: it needs the same scaler")
            return
    device = '"cuda" if torch.cuda.is_available() else "cpu"'
    made = f"{name} = {torch}.amp.GradScaler({device})\n" + ("\n\n" if first.in_function else "")
    yield RULE.converted(
        first.home,
        "small gradients would vanish in float16: the loss is scaled",
        *imports,
        InsertBefore(first.home, made),
    )
    for step in steps:
        if step.apex is None:
            edit: Edit = Replace(step.loss, f"{name}.scale($0)", (step.loss,))
        else:
            edit = InsertAfter(step.apex, f"{name}.scale({context.program.text(step.loss)}).backward()\n")
        yield RULE.converted(step.loss, "the loss is scaled", edit)
    clips = dict.fromkeys(clip for step in steps for clip in step.clips)
    for one in taken:
        edits: list[Edit] = [
            Replace(one.at, f"{name}.step({one.optimizer})"),
            InsertAfter(one.statement, f"{name}.update()\n"),
        ]
        edits += [InsertBefore(clip, f"{name}.unscale_({one.optimizer})\n") for clip in clips if len(taken) == 1]
        yield RULE.converted(
            one.at, "gradients are unscaled, and a step with infinities is left out on all processes", *edits
        )
    if clips and len(taken) > 1:
        yield RULE.question(next(iter(clips)), "--amp fp16: unscale the gradients of the right optimizer before this")


RULE = Rule(
    "MG402",
    "mixed-precision",
    check,
    __doc__ or "",
    applicability="unsafe",
    hazards=("H32", "H33"),
    sources=("https://docs.pytorch.org/docs/stable/notes/amp_examples.html",),
    why="Half precision rounds differently: losses and weights are close to the original's, not equal.",
    keeps=("trajectory",),
    needs=("MG404",),
    together=True,
)
