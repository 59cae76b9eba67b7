"""With a batch for each GPU the learning rate grows with the batch, and rises to its new value over the first steps.

`--batch per-gpu` gives every process the batch size that the original gave to all of them together: the batch is world size
times as large, and an epoch has world size times fewer steps.  By the linear scaling rule the learning rate is multiplied by
the world size; over the first 5 % of all steps it rises from the original's to that.  The rate is scaled where the step is
taken, so that any schedule of the program, by a scheduler or by hand, sets, logs and saves what it always did.  Batches that a
sampler of the program's own makes stay as they are, and each process takes its turn at them.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import InsertBefore
from migrator.facts.steps.steps import OptimizerStep, optimizer_steps
from migrator.facts.training.rates import EpochView, arithmetic_with_batch, grows_already, view_epochs


def check(context: Context) -> Iterator[Diagnostic]:
    program, training = context.program, context.sharing.training
    if context.options.batch != "per-gpu" or not program.trains or not program.wraps:
        return
    if training is None or context.sharing.way not in ("distributed", "batch"):
        yield RULE.question(
            program.wraps[0].at,
            f"--batch per-gpu was not applied: every process needs whole batches here; {context.sharing.reason}",
        )
        return
    view = _view(context)
    if isinstance(view, str):
        yield RULE.question(training.loaders[0].at, f"--batch per-gpu was not applied: {view}")
        return
    yield _scaled(context, view, next(optimizer_steps(program)))
    for at in arithmetic_with_batch(program, training):
        yield RULE.question(
            at, "--batch per-gpu: this counts steps with the batch size, and there are fewer of them now"
        )
    if any("Adam" in kind for kind in view.kinds):
        yield RULE.note(view.at, "the linear rule comes from SGD; for Adam some multiply by the square root instead")


def grows(context: Context) -> bool:
    """True when each process gets the batch size that the original gave to all of them together."""
    return context.options.batch == "per-gpu" and not isinstance(_view(context), str)


def _view(context: Context) -> EpochView | str:
    program, training = context.program, context.sharing.training
    if training is None or context.sharing.way not in ("distributed", "batch"):
        return "every process needs whole batches"
    if training.whole is not None:
        return (
            "the loss looks at the whole batch, and a larger one may be another loss (a sum grows with it, more samples are "
            "compared); where it is a mean over samples, say so with --loss local"
        )
    if any(grows_already(program, loader) for loader in training.loaders):
        return "the batch grows with the number of GPUs already, and the learning rate belongs to that batch"
    return view_epochs(program, training, list(optimizer_steps(program)))


def _scaled(context: Context, view: EpochView, step: OptimizerStep) -> Diagnostic:
    steps = f"{view.epochs} * len({view.loader})"
    if step.every:
        every = step.every if step.every.replace(".", "").replace("_", "").isalnum() else f"({step.every})"
        steps += f" // {every}"
    world, imports = context.world_size(view.at)
    inner = ".optimizer" if context.accelerate else ""
    lines = "".join(f"scale_learning_rate({name}{inner}, {world}, {steps})\n" for name in view.optimizers)
    return RULE.converted(
        view.at,
        "world size times the batch: world size times the learning rate, reached after 5 % of the steps",
        *imports,
        context.helper(view.at, "scale_learning_rate"),
        InsertBefore(view.at, lines),
    )


RULE = Rule(
    "MG401",
    "larger-batch",
    check,
    __doc__ or "",
    applicability="unsafe",
    hazards=("H03", "H16"),
    sources=("arXiv 1706.02677 (Goyal et al., sections 2.1 and 2.2)",),
    why="Fewer and larger steps are another training; the linear rule is a heuristic and may need another rate.",
    keeps=("trajectory",),
    needs=("MG201", "MG204"),
)
