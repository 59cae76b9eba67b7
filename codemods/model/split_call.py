"""The batch is split where the model is called, exactly as DataParallel split it.

Every process runs the whole program on whole batches; only the wrapped call is shared out: this process computes its
chunk, and outputs are gathered with their gradients.  Losses, masks, metrics and decisions see what they always saw.  The
price is that every process loads every batch.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Edit, Inline, Replace
from migrator.facts.model import GuardFact, Wrap
from migrator.facts.networks.parameter_writes import parameter_writes
from migrator.facts.wraps.guards import leaves_bare
from migrator.facts.wraps.subclasses import KeptClass, chooses_shares, is_mentioned, kept_class, own_way


def check(context: Context) -> Iterator[Diagnostic]:
    if context.sharing.way != "call":
        return
    inlined: set[object] = set()
    noted: set[object] = set()
    derived: set[object] = set()
    for module, statement in parameter_writes(context.program) if context.program.wraps else ():
        yield RULE.question(
            module.span(statement),
            "this sets a parameter by the rows that the replica sees: each process would go on with another value. Let all"
            " see the whole batch first (call the module without its wrapper once), or give all rank 0's value afterwards",
        )
    for wrap in context.program.wraps:
        guard = context.program.inlined_guard(wrap)
        if wrap.kind == "functional":
            yield from _functional(context, wrap, guard)
            yield from _kept_guards(context, wrap, guard, noted)
            continue
        own = own_way(context.program, wrap.at) if wrap.kind == "subclass" else ""
        if own and not (context.options.sync_bn and "synchronised" in own):  # with MG321's layers it needs no replicas
            if is_mentioned(context.program, wrap.at):
                yield RULE.question(wrap.at, f"{wrap.name} is not converted: {own}. Wrap with torch's, and run again")
            continue
        dim = f", dim={wrap.dim}" if wrap.dim is not None else ""
        reason = "each process computes its share of the call; outputs are gathered with their gradients"
        own_shares = wrap.kind == "subclass" and chooses_shares(context.program, wrap.at)
        if own_shares:
            reason += f" (in equal shares: {wrap.name}'s own are not kept)"
        kept = kept_class(context.program, wrap.at) if wrap.kind == "subclass" else None
        edits: list[Edit] = _derived(context, kept, derived) if kept else [context.helper(wrap.at, "SplitDataParallel")]
        text = f"{kept.name if kept else 'SplitDataParallel'}($0{dim})"
        if wrap.conditional is not None:
            moves = context.program.text(wrap.outer)[len(context.program.text(wrap.at)) :]
            edits.append(Replace(wrap.conditional, text + moves, (wrap.inner,)))
        elif context.program.text(wrap.at) != text.replace("$0", context.program.text(wrap.inner)):
            edits.append(Replace(wrap.at, text, (wrap.inner,)))
        if guard is not None:
            reason += "; the process group, not a flag, decides that it is shared"
            if guard.at not in inlined:
                inlined.add(guard.at)
                edits.append(Inline(guard.at, guard.orelse))
        yield RULE.converted(wrap.at, reason, *edits)
        if own_shares:
            yield RULE.note(
                wrap.at,
                f"shares are equal now: dropout and batch norm meet other samples together than in {wrap.name}'s shares",
            )
        yield from _kept_guards(context, wrap, guard, noted)


def _derived(context: Context, kept: KeptClass, seen: set[object]) -> list[Edit]:
    """The program's own class goes on with another base."""
    if kept.base in seen:
        return []
    seen.add(kept.base)
    edits: list[Edit] = [context.helper(kept.base, "SplitDataParallel"), Replace(kept.base, "SplitDataParallel")]
    return [*edits, *(Replace(at, text) for at, text in kept.constructors)]


def _kept_guards(context: Context, wrap: Wrap, gone: GuardFact | None, noted: set[object]) -> Iterator[Diagnostic]:
    for kept in wrap.guards:
        if kept is gone or kept.at in noted or not leaves_bare(context.program, kept):
            continue
        noted.add(kept.at)
        test = f"`{' '.join(kept.test.split())}` {'holds' if kept.orelse else 'does not hold'}"
        yield RULE.note(kept.at, f"where {test}, every process trains the whole model by itself")


def _functional(context: Context, wrap: Wrap, guard: GuardFact | None) -> Iterator[Diagnostic]:
    arguments = context.program.functional_call(wrap)
    if arguments is None:
        yield RULE.question(
            wrap.at,
            "the inputs of this data_parallel call could not be read: call the module through a wrapper instead",
        )
        return
    dim = f", dim={wrap.dim}" if wrap.dim is not None else ""
    text, holes = arguments
    edits: list[Edit] = [
        context.helper(wrap.at, "SplitDataParallel"),
        Replace(wrap.at, f"SplitDataParallel($0{dim})({text})", (wrap.inner, *holes)),
    ]
    reason = "each process computes its share of the call"
    if guard is not None:
        reason += "; the process group, not a flag, decides that it is shared"
        edits.append(Inline(guard.at, guard.orelse))
    yield RULE.converted(wrap.at, reason, *edits)


RULE = Rule(
    "MG302",
    "split-call",
    check,
    __doc__ or "",
    hazards=("H23", "H24", "H27", "H62", "H67", "H124"),
    keeps=("trajectory", "memory"),
)
