"""Forward pass and loss are computed in half the bits where the user asks for it, and the step stays in full precision.

`--amp bf16` runs them under autocast in bfloat16, which has float32's range and needs nothing else; `--amp fp16` also scales
the loss, so that small gradients survive, and unscales them before they are clipped or taken.  Evaluation stays as it is.
A program that chooses its precision itself is changed where it does so (MG403).
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from codemods.optimisation.loss_scaling import scaled
from codemods.optimisation.without_apex import apex_left, wanted_precision
from migrator.edits import Guard
from migrator.facts.devices.precision import precision_calls
from migrator.facts.python.syntax import Span
from migrator.facts.steps.steps import Step, numpy_after, optimizer_steps, read_steps

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
        yield from scaled(RULE, context, steps, taken)


def _device(context: Context, at: Span) -> str:
    device = context.program.device_name(at)
    return f"{device}.type" if device else '"cuda" if torch.cuda.is_available() else "cpu"'


def _autocast(context: Context, step: Step, dtype: str) -> Diagnostic:
    torch, imports = context.module(step.loss, "torch")
    test = f"{torch}.autocast({_device(context, step.loss)}, dtype={torch}.{dtype})"
    reason = f"the model and the loss are computed in {dtype} where that is safe"
    return RULE.converted(step.forward[0], reason, *imports, Guard(step.forward[0], step.forward, test, "with"))


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
