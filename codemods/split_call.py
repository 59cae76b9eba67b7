"""The batch is split where the model is called, exactly as DataParallel split it.

Every process runs the whole program on whole batches; only the wrapped call is shared out: this process computes its
chunk, and outputs are gathered with their gradients.  Losses, masks, metrics and decisions see what they always saw.  The
price is that every process loads every batch.
"""

import ast
import re
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Edit, Inline, Replace
from migrator.facts.model import GuardFact, Wrap
from migrator.facts.subclasses import is_mentioned, own_way

_CUDA_ONLY = re.compile(r"^device$|cuda|use_gpu|device_count|isinstance", re.IGNORECASE)


def check(context: Context) -> Iterator[Diagnostic]:
    if context.sharing.way != "call":
        return
    inlined: set[object] = set()
    noted: set[object] = set()
    for wrap in context.program.wraps:
        if wrap.kind == "functional":
            yield from _functional(context, wrap)
            continue
        own = own_way(context.program, wrap.at) if wrap.kind == "subclass" else ""
        if own and not (context.options.sync_bn and "synchronised" in own):  # with MG321's layers it needs no replicas
            if is_mentioned(context.program, wrap.at):
                yield RULE.question(wrap.at, f"{wrap.name} is not converted: {own}. Wrap with torch's, and run again")
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
        guard = context.program.inlined_guard(wrap)
        if guard is not None:
            reason += "; the process group, not a flag, decides that it is shared"
            if guard.at not in inlined:
                inlined.add(guard.at)
                edits.append(Inline(guard.at, guard.orelse))
        yield RULE.converted(wrap.at, reason, *edits)
        if wrap.kind == "subclass":
            yield RULE.note(
                wrap.at,
                f"shares are equal now: dropout and batch norm meet other samples together than in {wrap.name}'s shares",
            )
        for kept in wrap.guards:
            if kept is guard or kept.at in noted or not _leaves_bare(context, kept):
                continue
            noted.add(kept.at)
            test = f"`{' '.join(kept.test.split())}` {'holds' if kept.orelse else 'does not hold'}"
            yield RULE.note(kept.at, f"where {test}, every process trains the whole model by itself")


def _leaves_bare(context: Context, guard: GuardFact) -> bool:
    """True when a flag can keep a program on GPUs from wrapping its model."""
    if not guard.parallel or _CUDA_ONLY.search(guard.test) or _counts_devices(context, guard):  # of processes now
        return False
    if guard.orelse:
        return not guard.wraps_elsewhere and not any(guard.at.contains(ddp.at) for ddp in context.program.existing_ddp)
    return True


def _counts_devices(context: Context, guard: GuardFact) -> bool:
    """True when a name in the test holds the number of GPUs."""
    module = context.program.module_at(guard.at)
    node = next((n for n in module.nodes if isinstance(n, ast.If) and module.span(n) == guard.at), None)
    return node is not None and any(
        value.name == "torch.cuda.device_count"
        for name in ast.walk(node.test)
        if isinstance(name, ast.Name | ast.Attribute)
        for value in context.program.resolver.values(module, name)
    )


def _functional(context: Context, wrap: Wrap) -> Iterator[Diagnostic]:
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
    yield RULE.converted(wrap.at, "each process computes its share of the call", *edits)


RULE = Rule(
    "MG302",
    "split-call",
    check,
    __doc__ or "",
    hazards=("H23", "H24", "H27", "H62", "H67", "H124"),
    keeps=("trajectory", "memory"),
)
