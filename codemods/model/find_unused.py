"""A model of which a step leaves parameters out still trains, where the user asks for it.

DistributedDataParallel waits for the gradient of every parameter; one that has none stops the second step with an error.
`--find-unused` looks for them in each step, at some cost.  They keep no gradient then, where DataParallel gave them zeros: with
weight decay or momentum, DataParallel went on changing them.  Which parameters a step uses only a run can tell; where the
model's own classes show that some are left out, MG301 gives them zeros without this flag.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule


def check(context: Context) -> Iterator[Diagnostic]:
    if not context.options.find_unused or not context.program.wraps:
        return
    first = context.program.wraps[0].at
    if context.sharing.way != "call":
        yield RULE.note(
            first,
            "find_unused_parameters=True: parameters without a gradient are left as they are,"
            " where weight decay went on under DataParallel",
        )
    else:
        yield RULE.note(first, "--find-unused is not needed here: unused parameters get zeros, as under DataParallel")


RULE = Rule(
    "MG323",
    "find-unused",
    check,
    __doc__ or "",
    applicability="display-only",
    hazards=("H51", "H52", "H124"),
    sources=(
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html",
        "pytorch/pytorch#22049",
    ),
)
