"""The next batch of an iterator is taken with `next(it)`.

The iterators of a DataLoader had a `next` method of their own, as in Python 2; torch 1.13 took it away.  An object of the
program's own may have such a method, and keeps it: only what `iter` made is rewritten.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace
from migrator.facts.old.old import iterator_steps


def check(context: Context) -> Iterator[Diagnostic]:
    for at, iterator in iterator_steps(context.program):
        yield RULE.converted(
            at, "a loader's iterator has no method `next` since torch 1.13", Replace(at, "next($0)", (iterator,))
        )


RULE = Rule(
    "MG006",
    "next-method",
    check,
    __doc__ or "",
    sources=("dvgodoy/PyTorchStepByStep#29",),
    evaluation=True,
    keeps=("alone",),
    parallel=False,
)
