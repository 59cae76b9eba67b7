"""The precision that is chosen around the wrapped call holds inside it.

DataParallel ran its replicas in threads, which heard that autocast was on but not of which type: a bfloat16 region ran the
model in float16.  In the converted program it runs in bfloat16, as it says; the numbers are not those of the original.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.facts.wraps.replicas import calls_under_bfloat16


def check(context: Context) -> Iterator[Diagnostic]:
    for at in calls_under_bfloat16(context.program):
        yield RULE.note(
            at,
            "DataParallel ran the model in float16 here, on more than one GPU; now it runs in bfloat16, as written",
        )


RULE = Rule(
    "MG315",
    "replica-precision",
    check,
    __doc__ or "",
    applicability="display-only",
    hazards=("H34",),
    sources=("torch/nn/parallel/parallel_apply.py",),
)
