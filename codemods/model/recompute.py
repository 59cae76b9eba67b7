"""Layers that are computed again in the backward pass are so in the form that works under every wrapper.

The old, reentrant form of `checkpoint` starts a backward pass inside the backward pass: DistributedDataParallel then meets
parameters twice when it also looks for unused ones.  The other form computes the same numbers, and is the one that torch advises.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import SetArgument
from migrator.facts.python.nodes import has_unpacking

_CALLS = ("torch.utils.checkpoint.checkpoint", "torch.utils.checkpoint.checkpoint_sequential")


def check(context: Context) -> Iterator[Diagnostic]:
    for module, call in context.program.calls():
        if context.program.external(module, call) not in _CALLS or any(k.arg == "use_reentrant" for k in call.keywords):
            continue
        at = module.span(call)
        if any(k.arg is None for k in call.keywords) and has_unpacking(call):
            yield RULE.note(
                at, "its keyword arguments are not in sight: use_reentrant=False is the form for several processes"
            )
            continue
        yield RULE.converted(
            at,
            "the same numbers, without a backward pass inside a backward pass",
            SetArgument(at, "use_reentrant", "False"),
        )


RULE = Rule(
    "MG314",
    "recompute",
    check,
    __doc__ or "",
    hazards=("H58",),
    sources=("https://docs.pytorch.org/docs/stable/checkpoint.html", "microsoft/FocalNet#4"),
    keeps=("trajectory",),
    parallel=False,
)
