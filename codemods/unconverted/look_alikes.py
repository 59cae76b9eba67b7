"""What is only called like DataParallel is not taken for it.

Synchronised-batch-norm wrappers, balanced or user-scattered variants and vendored copies have rules of their own; they are
resolved by import, never by their last name, and reported.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.facts.wraps.handed_wrappers import HANDED, handed_wrappers


def check(context: Context) -> Iterator[Diagnostic]:
    for one in context.program.look_alikes:
        yield RULE.question(
            one.at,
            f"{one.name} ({one.reason}) is not torch's DataParallel: convert it by hand, or use torch's and run again",
        )
    for at, text in handed_wrappers(context.program):
        yield RULE.question(at, f"{text} {HANDED}")


RULE = Rule(
    "MG901", "look-alikes", check, __doc__ or "", applicability="display-only", hazards=("H30", "H41"), evaluation=True
)
