"""A single number is taken out of its tensor with `item()`.

A loss had one dimension in torch 0.3 and has none since 0.4: `loss.data[0]` is an IndexError today.  Only what is certain to
be one number is rewritten: a loss, a whole sum or mean, what `backward()` is called on.  Elsewhere `[0]` is the first row.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace
from migrator.facts.old.old import numbers


def check(context: Context) -> Iterator[Diagnostic]:
    for at, tensor in numbers(context.program):
        yield RULE.converted(
            at, "this is one number, which has no first element since torch 0.4", Replace(at, "$0.item()", (tensor,))
        )


RULE = Rule(
    "MG005",
    "numbers-of-tensors",
    check,
    __doc__ or "",
    sources=("https://pytorch.org/blog/pytorch-0_4_0-migration-guide/",),
    evaluation=True,
    keeps=("alone",),
    parallel=False,
)
