"""Model, optimizer and training loader go through one `prepare` call, and nothing else does.

`prepare` puts the model on the process's device and wraps it, and gives each process its part of every batch; a loader that
is left out would give all processes the same samples, unless it deals out its batches itself (MG204).  Schedules stay out: a prepared one steps once per process.  Criteria
without parameters, frozen networks and evaluation loaders stay out as well.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from codemods.model.taken_off import parts_left_out, taken_off
from migrator.edits import Edit, InsertAfter, Replace
from migrator.facts.accelerate.preparing import Named, Preparation, find_preparation

_SCHEDULES = "# Schedules stay out of prepare(): a prepared one would step once per process.\n"


def check(context: Context) -> Iterator[Diagnostic]:
    training = context.sharing.training
    if not context.accelerate or training is None or context.sharing.way not in ("distributed", "batch"):
        return
    shared = context.sharing.way == "distributed"  # else the loader deals out its batches itself (MG204)
    found = find_preparation(context.program, training, shared)
    yield from taken_off(RULE, context, found)
    if found is None:
        for loader in training.loaders if shared else ():
            name = context.accelerator(loader.at)
            whole = Replace(loader.at, f"{name}.prepare($0)", (loader.at,))
            yield RULE.converted(loader.at, "each process loads its part of every batch", whole)
        return
    if not found.of_kind("optimizer"):
        yield RULE.note(found.after, "the optimizer is not prepared: it is made elsewhere, and steps as it always did")
    for group in (*[(one,) for one in found.early], found.names):
        if group:
            yield _prepared(context, found, group)


def _prepared(context: Context, found: Preparation, group: tuple[Named, ...]) -> Diagnostic:
    after = group[0].statement if group != found.names else found.after
    name = context.accelerator(after)
    names = ", ".join(one.name for one in group)
    line = f"{names} = {name}.prepare({names})\n"
    if found.schedulers and group == found.names:
        line = _SCHEDULES + line
    kinds = " and ".join(dict.fromkeys(one.kind for one in group))
    reason = f"{kinds} for this process, gradients averaged over all"
    edits, left_out = list[Edit](), parts_left_out(context)
    for one in group:
        if one.kind == "model" and left_out:
            line += f"{one.name} = zeros_for_unused({one.name})\n"
            edits = [context.helper(after, "zeros_for_unused")]
            reason += f"; what a step leaves out has zeros ({left_out[0].note})"
    return RULE.converted(after, reason, *edits, InsertAfter(after, line))


RULE = Rule(
    "MG305",
    "prepare",
    check,
    __doc__ or "",
    hazards=("H106", "H107", "H109", "H122"),
    keeps=("trajectory", "memory"),
    needs=("MG108",),
    together=True,
)
