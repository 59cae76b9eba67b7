"""Gradients are computed and clipped by the Accelerator.

With `mixed_precision="no"` that is `loss.backward()` and torch's clipping; it stays right when somebody turns mixed precision
on.  The program's own accumulation stays as it is: `gradient_accumulation_steps` is left at 1.  A program with a GradScaler of
its own keeps it, and scales for itself.
"""

import ast
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from codemods.optimisation.accumulate import accumulation
from migrator.edits import Replace
from migrator.facts.steps.accumulating import Accumulation

_CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_")
_BACKWARD = ("gradient", "retain_graph", "create_graph", "inputs")  # of torch.Tensor.backward


def check(context: Context) -> Iterator[Diagnostic]:
    if not context.accelerate or context.sharing.way not in ("distributed", "batch"):
        return
    program = context.program
    summed = accumulation(context)
    divided = summed.divided if isinstance(summed, Accumulation) and summed.at_backward else None
    scalers = [m.span(c) for m, c in program.calls() if program.external(m, c).endswith(".GradScaler")]
    if scalers:
        yield RULE.note(
            scalers[0], "the program scales its loss itself: its backward pass and clipping are left as they are"
        )
        return
    for module, call in program.calls():
        at = module.span(call)
        name = context.accelerator(at)
        if not name:
            continue  # with mixed_precision="no" the program's own line does the same
        external = program.external(module, call).replace("clip_grad.clip", "clip")
        if external in _CLIPS:
            clip = f"{name}.{external.rpartition('.')[2]}"
            yield RULE.converted(at, "clipped by the Accelerator", Replace(module.span(call.func), clip))
        elif isinstance(call.func, ast.Attribute) and call.func.attr == "backward":
            loss = module.span(call.func.value)
            if divided is not None and loss == divided[0]:
                loss = divided[1]  # accelerate divides
            given = zip(_BACKWARD, call.args, strict=False)  # the Accelerator passes on keywords only
            rest = [*(f"{name}=${i}" for i, (name, _) in enumerate(given, 1)), *_keywords(call)]
            text = f"{name}.backward({', '.join(['$0', *rest])})"
            holes = (loss, *(module.span(a) for a in call.args), *(module.span(k.value) for k in call.keywords))
            yield RULE.converted(at, "the Accelerator runs the backward pass", Replace(at, text, holes))


def _keywords(call: ast.Call) -> list[str]:
    first = len(call.args) + 1
    return [f"{k.arg}=${i}" if k.arg else f"**${i}" for i, k in enumerate(call.keywords, first)]


RULE = Rule("MG411", "backward", check, __doc__ or "", hazards=("H31", "H32", "H33", "H112", "H114"), needs=("MG108",))
