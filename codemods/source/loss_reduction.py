"""A loss says in one word how it comes from its samples.

`size_average` and `reduce` are the two arguments that `reduction` has replaced since torch 0.4.1; the loss is the same.
Arguments whose value is not in sight stay as they are: torch still accepts them, with a warning.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import DropArgument, Edit, SetArgument
from migrator.facts.old.old_reductions import old_reductions


def check(context: Context) -> Iterator[Diagnostic]:
    for old in old_reductions(context.program):
        edits: list[Edit] = [SetArgument(old.at, old.given[0], f'"{old.word}"', rename="reduction")]
        edits += [DropArgument(old.at, name) for name in old.given[1:]]
        yield RULE.converted(old.at, "`reduction` has taken the place of `size_average` and `reduce`", *edits)


RULE = Rule(
    "MG007",
    "loss-reduction",
    check,
    __doc__ or "",
    sources=("https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html",),
    evaluation=True,
    parallel=False,
)
