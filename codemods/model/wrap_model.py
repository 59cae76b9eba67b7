"""The trained model is wrapped once, whole, complete and on its device, wherever a process group exists.

The original's guard (a flag, a count of GPUs) decided whether DataParallel was used; now the process group decides.  A
model left bare behind a flag would train a different copy in every process, silently.  Parameters that a step leaves out get
gradients of zero, as under DataParallel.  For accelerate see MG305.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from codemods.model.wrapping import branch_beside, ddp_arguments, told_of, whole_in_place
from migrator.edits import Edit, Inline, InsertAfter, Remove, Replace
from migrator.facts.model import GuardFact, Wrap
from migrator.facts.python.syntax import Span
from migrator.facts.wraps.evaluation_wraps import evaluation_wraps, removed
from migrator.facts.wraps.guards import whole_choice

EVALUATES = "an evaluation needs no wrapper: there are no gradients to average"
_REASON = "gradients are averaged over the processes"


def check(context: Context) -> Iterator[Diagnostic]:
    if context.accelerate or context.sharing.way not in ("distributed", "batch"):
        return
    inlined: set[object] = set()
    hoisted: set[tuple[Span, str]] = set()
    left_out = context.sharing.training.left_out if context.sharing.training is not None else []
    evaluating = evaluation_wraps(context.program)
    for wrap in context.program.wraps:
        if wrap in evaluating:
            yield RULE.converted(wrap.at, EVALUATES, Remove(removed(context.program, wrap)))
            continue
        part = context.program.parts.get(wrap.at)
        if part is not None:
            yield from told_of(RULE, part)
        if part is not None and part.instead is not None:
            continue  # it goes with the `if` in which the whole is wrapped in the other branch
        text, edits = _wrapping(context, wrap)
        beside = branch_beside(context, wrap)
        guard = next((g for g in wrap.guards if g.parallel), None)
        if beside is not None and guard is not None and _is_beside_own(context, guard):
            guard = None  # the branch stays, and holds the one line that both wraps become
        reason = _REASON
        if part is not None or beside is not None:
            reason += "; the whole model is wrapped, not a part of it"
        if left_out:
            text = f"zeros_for_unused({text})"
            edits.append(context.helper(wrap.at, "zeros_for_unused"))
            reason += (
                f"; what a step leaves out has zeros ({left_out[0].note}: {left_out[0].at.path}:{left_out[0].at.line})"
            )
        if guard is not None:
            reason += "; the process group, not a flag, decides that the model is wrapped"
        if guard is not None and not (guard.exclusive or guard.alone):
            inner = context.program.text(wrap.inner)
            line = f"{wrap.target} = {text.replace('$0', inner)}\n"
            gone = beside.instead if beside is not None and beside.instead is not None else wrap.statement
            edits += [Remove(gone)] if gone not in inlined else []
            inlined.add(gone)
            behind = whole_choice(context.program, guard)
            if (behind, line) not in hoisted:  # it may be wrapped in several branches
                hoisted.add((behind, line))
                edits.append(InsertAfter(behind, line))
            yield RULE.converted(wrap.at, reason, *edits)
            continue
        edits.append(Replace(wrap.conditional or wrap.outer, text, (wrap.inner,)))
        edits += whole_in_place(context, wrap)
        if beside is not None and beside.instead is not None and beside.instead not in inlined:
            inlined.add(beside.instead)
            edits.append(Inline(beside.instead, beside.orelse))
        if guard is not None and guard.at not in inlined:
            inlined.add(guard.at)
            edits.append(Inline(guard.at, guard.orelse))
        yield RULE.converted(wrap.at, reason, *edits)


def _is_beside_own(context: Context, guard: GuardFact) -> bool:
    """True for `if not args.distributed:` with the program's own DistributedDataParallel in its only other branch."""
    own = any(guard.at.contains(place.at) for place in context.program.existing_ddp)
    return own and whole_choice(context.program, guard) == guard.at


def _wrapping(context: Context, wrap: Wrap) -> tuple[str, list[Edit]]:
    """Text of the wrap: with the program's own `device` where there is one, else by a helper."""
    device = context.program.device_name(wrap.at)
    if device is None:
        return f"wrap_model($0{ddp_arguments(context)})", [context.helper(wrap.at, "wrap_model")]
    name, imports = context.module(wrap.at, "torch.nn.parallel.DistributedDataParallel")
    placed = "$0" if ".to(" in wrap.inner_text or ".cuda(" in wrap.inner_text else f"$0.to({device})"
    ids = f'[{device}] if {device}.type == "cuda" else None'
    return f"{name}({placed}, device_ids={ids}{ddp_arguments(context)})", list(imports)


RULE = Rule(
    "MG301",
    "wrap-model",
    check,
    __doc__ or "",
    hazards=("H48", "H51", "H52", "H56", "H61", "H63", "H65", "H96", "H124"),
    keeps=("trajectory", "memory"),
)
