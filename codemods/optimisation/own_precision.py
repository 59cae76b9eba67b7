"""A program that chooses its precision keeps its choice, or takes the user's, in the places where it makes it.

`--amp off` disables each autocast and scaler, `--amp bf16` gives autocast the type and disables the scaler, which bfloat16
does not need; the program's lines stay.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Edit, SetArgument
from migrator.facts.devices.precision import PrecisionCall, precision_calls

_DTYPES = {"bf16": "bfloat16", "fp16": "float16"}


def check(context: Context) -> Iterator[Diagnostic]:
    wanted = context.options.amp
    calls = precision_calls(context.program)
    if wanted == "keep" or not calls:
        return
    scaled = any(call.kind == "GradScaler" for call in calls)
    if wanted == "fp16" and not scaled:
        yield RULE.question(calls[0].at, "--amp fp16 needs a GradScaler, and the program has none: add one")
        return
    for call in calls:
        if call.positional:
            yield RULE.question(call.at, f"--amp {wanted}: name the arguments of this call, and run again")
            continue
        edits = list(_edits(context, call, wanted))
        if edits:
            yield RULE.converted(call.at, f"--amp {wanted}, where the program chooses its precision", *edits)


def _edits(context: Context, call: PrecisionCall, wanted: str) -> Iterator[Edit]:
    old = call.name.startswith("torch.cuda.")
    if wanted == "off" or (wanted == "bf16" and call.kind == "GradScaler"):
        yield SetArgument(call.at, "enabled", "False", None if old or call.kind == "GradScaler" else 2)
    elif call.kind == "autocast":
        torch, imports = context.module(call.at, "torch")
        yield from imports
        yield SetArgument(call.at, "dtype", f"{torch}.{_DTYPES[wanted]}", None if old else 1)


RULE = Rule(
    "MG403",
    "own-precision",
    check,
    __doc__ or "",
    applicability="unsafe",
    hazards=("H33", "H34"),
    sources=("https://docs.pytorch.org/docs/stable/amp.html",),
    why="Another precision rounds differently: losses and weights are close to the original's, not equal.",
    keeps=("trajectory",),
)
