"""A loss says in one word how it comes from its samples.

`size_average` and `reduce` are the two arguments that `reduction` has replaced since torch 0.4.1; the loss is the same.
Arguments whose value is not in sight stay as they are: torch still accepts them, with a warning.
"""

import ast
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import DropArgument, Edit, SetArgument
from migrator.facts.syntax import argument

_OLD = ("size_average", "reduce")


def check(context: Context) -> Iterator[Diagnostic]:
    for module, call in context.program.calls():
        given = {name: argument(call, name, None) for name in _OLD}
        named = [name for name, value in given.items() if value is not None]
        if not named or not context.program.external(module, call).startswith("torch.nn."):
            continue
        if any(value is not None and not isinstance(value, ast.Constant) for value in given.values()):
            continue
        values = {name: value.value if isinstance(value, ast.Constant) else None for name, value in given.items()}
        word = "none" if values["reduce"] is False else "sum" if values["size_average"] is False else "mean"
        at = module.span(call)
        edits: list[Edit] = [SetArgument(at, named[0], f'"{word}"', rename="reduction")]
        edits += [DropArgument(at, name) for name in named[1:]]
        yield RULE.converted(at, "`reduction` has taken the place of `size_average` and `reduce`", *edits)


RULE = Rule(
    "MG007",
    "loss-reduction",
    check,
    __doc__ or "",
    sources=("https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html",),
    evaluation=True,
    parallel=False,
)
