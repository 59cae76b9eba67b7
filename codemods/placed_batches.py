"""A prepared loader puts its batches on the process's device; the loop need not do so again.

Moves of the batch's own tensors go.  What else the loop moves, and what other loaders give, is moved as before.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Remove, Replace
from migrator.facts.placing import needless_moves


def check(context: Context) -> Iterator[Diagnostic]:
    training = context.sharing.training
    if not context.accelerate or training is None or context.sharing.way != "distributed":
        return
    for move in needless_moves(context.program, training):
        edit = Remove(move.at) if move.kept is None else Replace(move.at, "$0", (move.kept,))
        yield RULE.converted(move.at, "the prepared loader has put it there", edit, optional=True)


RULE = Rule("MG319", "placed-batches", check, __doc__ or "", hazards=("H109",), keeps=("memory",), needs=("MG305",))
