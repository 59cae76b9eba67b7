"""A prepared loader puts its batches on the process's device, and `prepare` the model; the program need not do so again.

Moves of the batch's own tensors go, and those of the model above `prepare`, unless something between them needs it there.  What
else the program moves, and what other loaders give, is moved as before.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Edit, Remove, Replace
from migrator.facts.accelerate.preparing import find_preparation
from migrator.facts.devices.placing import Move, model_moves, needless_moves


def check(context: Context) -> Iterator[Diagnostic]:
    training = context.sharing.training
    if not context.accelerate or training is None or context.sharing.way not in ("distributed", "batch"):
        return
    shared = context.sharing.way == "distributed"  # else the loader deals out its batches itself (MG204)
    found = find_preparation(context.program, training, shared)
    for move in model_moves(context.program, found) if found is not None else ():
        yield RULE.converted(move.at, "prepare() puts the model there", _edit(move), optional=True)
    for move in needless_moves(context.program, training) if shared else ():
        yield RULE.converted(move.at, "the prepared loader has put it there", _edit(move), optional=True)


def _edit(move: Move) -> Edit:
    return Remove(move.at) if move.kept is None else Replace(move.at, "$0", (move.kept,))


RULE = Rule("MG319", "placed-batches", check, __doc__ or "", hazards=("H109",), keeps=("memory",), needs=("MG305",))
