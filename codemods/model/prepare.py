"""Model, optimizer and training loader go through one `prepare` call, and nothing else does.

`prepare` puts the model on the process's device and wraps it, and gives each process its part of every batch; a loader that
is left out would give all processes the same samples, unless it deals out its batches itself (MG204).  Schedules stay out: a prepared one steps once per process.  Criteria
without parameters, frozen networks and evaluation loaders stay out as well.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from codemods.model.wrap_model import EVALUATES
from codemods.model.wrapping import branch_beside, told_of, whole_in_place
from migrator.edits import Edit, Inline, InsertAfter, Remove, Replace
from migrator.facts.evaluation_wraps import evaluation_wraps, removed
from migrator.facts.guards import whole_choice
from migrator.facts.model import GuardFact, Place, Wrap
from migrator.facts.placing import unplaced
from migrator.facts.preparing import Named, Preparation, find_preparation
from migrator.facts.syntax import Span

_SCHEDULES = "# Schedules stay out of prepare(): a prepared one would step once per process.\n"


def check(context: Context) -> Iterator[Diagnostic]:
    training = context.sharing.training
    if not context.accelerate or training is None or context.sharing.way not in ("distributed", "batch"):
        return
    shared = context.sharing.way == "distributed"  # else the loader deals out its batches itself (MG204)
    found = find_preparation(context.program, training, shared)
    yield from _unwrapped(context, found)
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
    edits, left_out = list[Edit](), _left_out(context)
    for one in group:
        if one.kind == "model" and left_out:
            line += f"{one.name} = zeros_for_unused({one.name})\n"
            edits = [context.helper(after, "zeros_for_unused")]
            reason += f"; what a step leaves out has zeros ({left_out[0].note})"
    return RULE.converted(after, reason, *edits, InsertAfter(after, line))


def _left_out(context: Context) -> list[Place]:
    """Why a step may leave parameters out, where DataParallel gave them zeros; a DDP program has none to give."""
    training = context.sharing.training
    return training.left_out if training is not None and not context.options.batch_of_process else []


def _unwrapped(context: Context, found: Preparation | None) -> Iterator[Diagnostic]:
    """Take DataParallel off; where model and loader never meet, prepare the model in its place."""
    inlined: set[object] = set()
    evaluating = evaluation_wraps(context.program)
    for wrap in context.program.wraps:
        if wrap in evaluating:
            yield RULE.converted(wrap.at, EVALUATES, Remove(removed(context.program, wrap)))
            continue
        part, beside = context.program.parts.get(wrap.at), branch_beside(context, wrap)
        if part is not None:
            yield from told_of(RULE, part)
        if part is not None and part.instead is not None:
            continue  # it goes with the `if` in which the whole is wrapped in the other branch
        if found is not None and (part is not None or beside is not None):
            gone = beside.instead if beside is not None else None
            gone = gone or context.program.module_at(wrap.statement).emptied_by(wrap.statement)
            going = [Remove(gone)] if gone not in inlined else []
            inlined.add(gone)
            yield RULE.converted(wrap.at, "prepare() wraps the whole model, not a part of it", *going)
            continue
        text = "$0"
        edits: list[Edit] = []
        if found is None:
            text = f"{context.accelerator(wrap.at)}.prepare($0)"
            if _left_out(context):
                text = f"zeros_for_unused({text})"
                edits.append(context.helper(wrap.at, "zeros_for_unused"))
        guard = next((g for g in wrap.guards if g.parallel), None)
        plain = unplaced(context.program, found, wrap) if found is not None else None
        if found is not None and _only_wraps(context, wrap, plain[1] if plain is not None else wrap.inner):
            together = guard is not None and guard.exclusive and _all_wrap(context, guard)
            if guard is not None and together:
                if guard.at not in inlined:
                    inlined.add(guard.at)
                    yield RULE.converted(wrap.at, "prepare() wraps the models", Remove(guard.at))
                continue
            alone = guard is not None and _is_alone(context, guard)
            whole = context.program.module_at(wrap.statement).emptied_by(wrap.statement)
            edits.append(Remove(guard.at if guard is not None and alone else whole))
            if guard is not None and guard.exclusive and not alone and guard.at not in inlined:
                inlined.add(guard.at)
                edits.append(Inline(guard.at, guard.orelse))
        else:
            place = wrap.conditional or (wrap.outer if found is None else wrap.at)
            place, inner = plain or (place, wrap.inner)
            edits += [Replace(place, text, (inner,)), *whole_in_place(context, wrap)]
            if beside is not None and beside.instead is not None and beside.instead not in inlined:
                inlined.add(beside.instead)
                edits.append(Inline(beside.instead, beside.orelse))
            if guard is not None and guard.exclusive and guard.at not in inlined:
                inlined.add(guard.at)
                edits.append(Inline(guard.at, guard.orelse))
        yield RULE.converted(wrap.at, "prepare() wraps the model", *edits)


def _all_wrap(context: Context, guard: GuardFact) -> bool:
    """True when every statement of the branch wraps a model and does nothing else: the `if` goes with them."""
    wraps = {wrap.statement: wrap for wrap in context.program.wraps}
    if len(guard.lines) == 1 or whole_choice(context.program, guard) != guard.at:
        return False
    return all(line in wraps and _only_wraps(context, wraps[line], wraps[line].inner) for line in guard.lines)


def _only_wraps(context: Context, wrap: Wrap, inner: Span) -> bool:
    """True when the statement does nothing but wrap and place the model under its own name."""
    if context.program.text(inner) != wrap.target:
        return False
    return context.program.text(wrap.statement).replace(" ", "") == (
        f"{wrap.target}={context.program.text(wrap.conditional or wrap.outer)}".replace(" ", "")
    )


def _is_alone(context: Context, guard: GuardFact) -> bool:
    """True when nothing else stands in the `if` around the wrap, or the other branch only places the model."""
    if len(guard.lines) != 1 or whole_choice(context.program, guard) != guard.at:
        return False
    return guard.exclusive or not context.program.module_at(guard.at).has_else_at(guard.at)


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
