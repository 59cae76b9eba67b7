"""Evaluation keeps no graph: `volatile` is today's `torch.no_grad()`.

`Variable(x, volatile=True)` has had no effect since torch 0.4, so an old evaluation loop keeps the graph of every batch, and
needs far more memory than it did.  The argument goes; where a loop is certain to compute no gradient, it runs without.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import DropArgument, Edit, Guard
from migrator.facts.old.old import volatile_calls


def check(context: Context) -> Iterator[Diagnostic]:
    for group in volatile_calls(context.program):
        drops: list[Edit] = [DropArgument(call, "volatile") for call in group.calls]
        if group.loop is None or group.guarded:
            for drop in drops:
                yield RULE.converted(drop.at, "`volatile` has had no effect since torch 0.4", drop)
            continue
        torch, imports = context.module(group.loop, "torch")
        yield RULE.converted(
            group.loop,
            "`volatile` has had no effect since torch 0.4; this loop computes no gradient",
            *imports,
            *drops,
            Guard(group.loop, (group.loop,), f"{torch}.no_grad()", "with"),
        )


RULE = Rule(
    "MG004",
    "volatile",
    check,
    __doc__ or "",
    sources=("https://pytorch.org/blog/pytorch-0_4_0-migration-guide/",),
    evaluation=True,
    parallel=False,
)
