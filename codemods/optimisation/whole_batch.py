"""A loss that looks at more than one sample at a time sees the whole batch.

Weighted, summed and masked losses, contrastive losses, losses of the program's own and figures over a batch are not the mean
of those of its shares.  Outputs and targets of all processes are put together, with their gradients, where the model is
called; everything behind that is as it was.  Each process loads and computes its own share of the samples all the same.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Edit, InsertAfter, InsertBefore, Replace
from migrator.facts.steps.whole_batch import WholeBatch


def check(context: Context) -> Iterator[Diagnostic]:
    training = context.sharing.training
    if training is None or context.sharing.way == "call":
        return
    for one in (training, *training.others):
        if one.whole is not None:
            yield _put_together(context, one.whole)


def _put_together(context: Context, whole: WholeBatch) -> Diagnostic:
    helper = "gather_batch" if context.accelerate else "whole_batch"
    first = f"{context.accelerator(whole.call)}, " if context.accelerate else ""
    edits: list[Edit] = [Replace(place, f"{helper}({first}$0)", (place,)) for place in whole.inline]
    places: dict[object, list[str]] = {}
    for place, name in whole.before:
        places.setdefault(place, []).append(name)
    lines = {place: _line(f"{helper}({first}", names) for place, names in places.items()}
    edits += [InsertBefore(place, line) for place, line in lines.items()]  # type: ignore[arg-type]
    if whole.after:
        edits.append(InsertAfter(whole.statement, _line(f"{helper}({first}", list(whole.after))))
    edits += [Replace(place, text) for place, text in whole.sizes]
    reason = "from here on the loss and the figures are those of the whole batch"
    return RULE.converted(whole.call, reason, context.helper(whole.call, helper), *edits)


def _line(call: str, names: list[str]) -> str:
    given = ", ".join(names)
    return f"{given} = {call}{given if len(names) == 1 else f'({given})'})\n"


RULE = Rule(
    "MG405",
    "whole-batch",
    check,
    __doc__ or "",
    hazards=("H23", "H24", "H25", "H26", "H27"),
    keeps=("trajectory", "metrics"),
)
