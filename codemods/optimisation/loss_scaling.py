"""How a loss is scaled, so that small gradients survive in float16: the scaler, the losses, and the optimizers' steps."""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Edit, InsertAfter, InsertBefore, Replace
from migrator.facts.steps.steps import OptimizerStep, Step


def scaled(rule: Rule, context: Context, steps: list[Step], taken: list[OptimizerStep]) -> Iterator[Diagnostic]:
    """One scaler for all losses, made where every epoch finds it; it looks for infinities before each step."""
    first = steps[0]
    torch, imports = context.module(first.loss, "torch")
    name = context.program.free_name("scaler", first.loss)
    for at in (*(step.loss for step in steps), *(one.at for one in taken)):
        if at.path != first.loss.path:
            yield rule.question(at, "--amp fp16: this is in another file than the first loss: it needs the same scaler")
            return
    device = '"cuda" if torch.cuda.is_available() else "cpu"'
    made = f"{name} = {torch}.amp.GradScaler({device})\n" + ("\n\n" if first.in_function else "")
    yield rule.converted(
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
        yield rule.converted(step.loss, "the loss is scaled", edit)
    clips = dict.fromkeys(clip for step in steps for clip in step.clips)
    for one in taken:
        edits: list[Edit] = [
            Replace(one.at, f"{name}.step({one.optimizer})"),
            InsertAfter(one.statement, f"{name}.update()\n"),
        ]
        edits += [InsertBefore(clip, f"{name}.unscale_({one.optimizer})\n") for clip in clips if len(taken) == 1]
        yield rule.converted(
            one.at, "gradients are unscaled, and a step with infinities is left out on all processes", *edits
        )
    if clips and len(taken) > 1:
        yield rule.question(next(iter(clips)), "--amp fp16: unscale the gradients of the right optimizer before this")
