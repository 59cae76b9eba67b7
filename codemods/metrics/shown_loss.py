"""A figure that is shown while an epoch runs says whose it is.

Where batches are shared out as they are loaded, the loss of a step covers this process's share.  It is only shown, so it is
left alone: rank 0 prints its own, which is as good an estimate and W times noisier.
"""

import ast
import re
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.facts.syntax import dotted, names_in

_SHOWS = re.compile(r"(^|\.)(print|info|debug|write|set_postfix|set_description|add_scalar|add_scalars|log)$")


def check(context: Context) -> Iterator[Diagnostic]:
    training = context.sharing.training
    if training is None or training.loop is None or training.whole is not None or context.sharing.way == "call":
        return
    module = context.program.module_at(training.loop)
    inside = [n for n in module.nodes if isinstance(n, ast.Call) and training.loop.contains(module.span(n))]
    losses: set[str] = set()
    for call in inside:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "backward":
            losses |= names_in(call.func.value) | {n for a in call.args for n in names_in(a)}
    for call in inside:
        if not _SHOWS.search(dotted(call.func) or ""):
            continue
        given = [*call.args, *(k.value for k in call.keywords)]
        if any(losses & names_in(part) for part in given):
            yield RULE.note(
                module.span(call), "this shows the loss of rank 0's share of the batch, not of the whole batch"
            )
            return


RULE = Rule("MG703", "shown-loss", check, __doc__ or "", applicability="display-only", hazards=("H39",))
