"""How DataParallel is taken off a model that `prepare` wraps."""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from codemods.model.wrap_model import EVALUATES
from codemods.model.wrapping import branch_beside, told_of, whole_in_place
from migrator.edits import Edit, Inline, Remove, Replace
from migrator.facts.accelerate.preparing import Preparation
from migrator.facts.devices.placing import unplaced
from migrator.facts.model import GuardFact, Place, Wrap
from migrator.facts.python.syntax import Span
from migrator.facts.wraps.evaluation_wraps import evaluation_wraps, removed
from migrator.facts.wraps.guards import whole_choice


def taken_off(rule: Rule, context: Context, found: Preparation | None) -> Iterator[Diagnostic]:
    """Take DataParallel off; where model and loader never meet, prepare the model in its place."""
    inlined: set[object] = set()
    evaluating = evaluation_wraps(context.program)
    for wrap in context.program.wraps:
        if wrap in evaluating:
            yield rule.converted(wrap.at, EVALUATES, Remove(removed(context.program, wrap)))
            continue
        part, beside = context.program.parts.get(wrap.at), branch_beside(context, wrap)
        if part is not None:
            yield from told_of(rule, part)
        if part is not None and part.instead is not None:
            continue  # it goes with the `if` in which the whole is wrapped in the other branch
        if found is not None and (part is not None or beside is not None):
            gone = beside.instead if beside is not None else None
            gone = gone or context.program.module_at(wrap.statement).emptied_by(wrap.statement)
            going = [Remove(gone)] if gone not in inlined else []
            inlined.add(gone)
            yield rule.converted(wrap.at, "prepare() wraps the whole model, not a part of it", *going)
            continue
        text = "$0"
        edits: list[Edit] = []
        if found is None:
            text = f"{context.accelerator(wrap.at)}.prepare($0)"
            if parts_left_out(context):
                text = f"zeros_for_unused({text})"
                edits.append(context.helper(wrap.at, "zeros_for_unused"))
        guard = next((g for g in wrap.guards if g.parallel), None)
        plain = unplaced(context.program, found, wrap) if found is not None else None
        if found is not None and _only_wraps(context, wrap, plain[1] if plain is not None else wrap.inner):
            together = guard is not None and guard.exclusive and _all_wrap(context, guard)
            if guard is not None and together:
                if guard.at not in inlined:
                    inlined.add(guard.at)
                    yield rule.converted(wrap.at, "prepare() wraps the models", Remove(guard.at))
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
        yield rule.converted(wrap.at, "prepare() wraps the model", *edits)


def parts_left_out(context: Context) -> list[Place]:
    """Why a step may leave parameters out, where DataParallel gave them zeros; a DDP program has none to give."""
    training = context.sharing.training
    return training.left_out if training is not None and not context.options.batch_of_process else []


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
