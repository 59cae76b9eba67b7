"""What policies do to a model just before it is wrapped, and which arguments they give to the wrapper.

In: a context and a wrap.  Out: edits.  Several policies may ask for one model: a model with a name gets one line for each, above
the wrap; one that is made inside the wrap is passed through them in order.
"""

from __future__ import annotations

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Edit, InsertBefore, Remove, Replace
from migrator.facts.model import PartWrap, Wrap
from migrator.facts.python.syntax import Span
from migrator.facts.wraps.part_wraps import placed_after


def prepare_model(context: Context, wrap: Wrap, helper: str, first: bool) -> tuple[Edit, ...] | str:
    """Edits that pass the model through a helper before it is wrapped, or the reason why that cannot be.

    `first` is False for a policy whose helper `wanted_helpers` has put around a model without a name already.
    """
    if wrap.kind == "functional":
        return "data_parallel() is given the model anew in every step: make the change where the model is made"
    guard = next((g for g in wrap.guards if g.parallel and not g.exclusive), None)
    names = wrap.inner_text.split(".")
    if all(name.isidentifier() for name in names):
        place = guard.at if guard is not None and context.sharing.way != "call" else _first_to_go(context, wrap)
        line = f"{wrap.inner_text} = {helper}({wrap.inner_text})\n"
        return context.helper(wrap.at, helper), InsertBefore(place, line)
    if guard is not None and context.sharing.way != "call":
        return "the model has no name before it is wrapped: give it one"
    if not first:
        return (context.helper(wrap.at, helper),)
    text = "$0"
    for wanted in wanted_helpers(context):
        text = f"{wanted}({text})"
    return context.helper(wrap.at, helper), Replace(wrap.inner, text, (wrap.inner,))


def _first_to_go(context: Context, wrap: Wrap) -> Span:
    """The wrap's statement, or the `if` around it that goes with it."""
    beside = branch_beside(context, wrap)
    if beside is not None and beside.instead is not None:
        return beside.instead
    if wrap.at in context.program.parts:
        return context.program.module_at(wrap.statement).emptied_by(wrap.statement)
    guard = next((g for g in wrap.guards if g.parallel and len(g.lines) == 1), None)
    return guard.at if guard is not None and context.accelerate and context.sharing.way != "call" else wrap.statement


def wanted_helpers(context: Context) -> list[str]:
    """Helpers that the user's policies ask for, in the order in which a model goes through them."""
    asked = {"sync_batch_norm": context.options.sync_bn, "use_channels_last": context.options.channels_last}
    return [name for name, wanted in asked.items() if wanted]


def ddp_arguments(context: Context) -> str:
    """More arguments of DistributedDataParallel, as text that follows the model."""
    return ", find_unused_parameters=True" if context.options.find_unused else ""


def whole_in_place(context: Context, wrap: Wrap) -> list[Edit]:
    """Where only a part was wrapped: the wrapper takes the whole model's name, and nothing moves the model afterwards."""
    part = context.program.parts.get(wrap.at)
    if part is None:
        return []
    return [Replace(part.target, part.whole), *(Remove(at) for at in placed_after(context.program, part))]


def made_wraps(context: Context) -> list[Wrap]:
    """The wraps that the converted program makes: a part's goes where the whole is wrapped in the other branch."""
    parts = context.program.parts
    return [wrap for wrap in context.program.wraps if wrap.at not in parts or parts[wrap.at].instead is None]


def branch_beside(context: Context, wrap: Wrap) -> PartWrap | None:
    """The part that is wrapped in the other branch, where this one wraps the whole and both come to the same."""
    parts = (part for part in context.program.parts.values() if part.at != wrap.at and part.whole == wrap.target)
    return next((part for part in parts if part.instead is not None and part.instead.contains(wrap.at)), None)


def told_of(rule: Rule, part: PartWrap) -> Iterator[Diagnostic]:
    """What becomes of dropout beside a part that was wrapped."""
    if part.draws:
        yield rule.note(
            part.at,
            f"dropout beside {part.whole}.{part.part} ({part.draws}) drew once for the whole batch; now each process draws for"
            " its own samples, as in a model that is wrapped whole",
        )
