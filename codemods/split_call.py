"""The batch is split where the model is called, exactly as DataParallel split it.

Every process runs the whole program on whole batches; only the wrapped call is shared out: this process computes its
chunk, and outputs are gathered with their gradients.  Losses, masks, metrics and decisions see what they always saw.  The
price is that every process loads every batch.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Edit, Inline, InsertAfter, Remove, Replace
from migrator.facts.model import Wrap


def check(context: Context) -> Iterator[Diagnostic]:
    if context.sharing.way != "call":
        return
    inlined: set[object] = set()
    for wrap in context.program.wraps:
        if wrap.kind == "functional":
            yield from _functional(context, wrap)
            continue
        dim = f", dim={wrap.dim}" if wrap.dim is not None else ""
        edits: list[Edit] = [context.helper(wrap.at, "SplitDataParallel")]
        reason = "each process computes its share of the call; outputs are gathered with their gradients"
        if wrap.kind == "subclass":
            reason += f" (in equal shares: {wrap.name}'s own are not kept)"
        if wrap.conditional is not None:
            edits.append(Replace(wrap.conditional, f"SplitDataParallel($0{dim})", (wrap.inner,)))
        else:
            edits.append(Replace(wrap.at, f"SplitDataParallel($0{dim})", (wrap.inner,)))
        for guard in wrap.guards:
            if guard.parallel and guard.exclusive and guard.at not in inlined:
                inlined.add(guard.at)
                edits.append(Inline(guard.at, guard.orelse))
                reason += "; the process group, not a flag, decides that it is shared"
                break
        yield RULE.converted(wrap.at, reason, *edits)


def _functional(context: Context, wrap: Wrap) -> Iterator[Diagnostic]:
    inputs = context.program.functional_inputs(wrap)
    if inputs is None:
        yield RULE.question(
            wrap.at,
            "the inputs of this data_parallel call could not be read: call the module through a wrapper instead",
        )
        return
    dim = f", dim={wrap.dim}" if wrap.dim is not None else ""
    edits: list[Edit] = [
        context.helper(wrap.at, "SplitDataParallel"),
        Replace(wrap.at, f"SplitDataParallel($0{dim})($1)", (wrap.inner, inputs)),
    ]
    yield RULE.converted(wrap.at, "each process computes its share of the call", *edits)


RULE = Rule("MG302", "split-call", check, __doc__ or "", hazards=("H23", "H24", "H27", "H62", "H67", "H124"))
_ = (InsertAfter, Remove)
