"""The first rows of a transposed tensor are laid out anew before they are counted.

`correct[:k].view(-1)` of the usual top-k accuracy worked while comparing gave contiguous results; since torch 1.7 it keeps
the transposed layout, which `view` refuses.  `reshape` gives the same elements, and copies only where it must.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace, SetArgument
from migrator.facts.steps.topk import views_of_rows


def check(context: Context) -> Iterator[Diagnostic]:
    for view in views_of_rows(context.program):
        yield RULE.converted(
            view.at,
            "`view` refuses rows of a transposed tensor",
            Replace(view.function, "$0.reshape", (view.rows,)),
        )
        if view.indexed_sum is not None:
            yield RULE.converted(
                view.indexed_sum,
                "a sum was a tensor of one element, which the program indexes; today's has no dimension left",
                SetArgument(view.indexed_sum, "keepdim", "True", 1),
            )


RULE = Rule(
    "MG008",
    "topk-view",
    check,
    __doc__ or "",
    sources=("pytorch/examples#836",),
    evaluation=True,
    keeps=("alone",),
    parallel=False,
)
