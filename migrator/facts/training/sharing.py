"""The way in which the processes of the converted program share a batch, and why.

Three ways, cheapest first: `distributed` (a DistributedSampler per training loader), `batch` (the original batches, split
over ranks before they are loaded) and `call` (whole batches everywhere, split at the wrapped call as DataParallel did).
The cheapest one that is known to be exact for this program is chosen; whatever cannot be resolved takes `call`.
A program that only evaluates runs `alone`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from migrator.facts.model import Place
from migrator.facts.program import Program
from migrator.facts.training.reading import read_training
from migrator.facts.training.training import Training

SPLIT_AT_CALL = (
    "every process loads whole batches, which are split where the model is called, as DataParallel split them"
)

Way = Literal["distributed", "batch", "call", "alone"]


@dataclass(frozen=True, slots=True)
class Sharing:
    """The chosen way; `obstacles` are the places that spoke against a cheaper one; `training` what is known of the loop."""

    way: Way
    reason: str
    training: Training | None = None
    obstacles: tuple[Place, ...] = ()


def choose_sharing(
    program: Program, wanted: str = "auto", loss: str = "auto", find_unused: bool = False, same_seeds: bool = False
) -> Sharing:
    """Choose the cheapest exact way for a program, or the one that the user asks for.

    With `same_seeds` all processes draw the same numbers, so that none may draw rows for its own samples.
    """
    if wanted == "call":
        return Sharing("call", "asked for: the batch is split where the model is called")
    training = read_training(program, loss, find_unused)
    whole = ", and the loss sees the whole batch" if training.whole is not None else ""
    if same_seeds:
        training.obstacles += training.drawn
    against = [*training.obstacles, *training.order_obstacles]
    if training.loaders and not against and wanted != "batch":
        return Sharing("distributed", f"each process loads its own share of every batch{whole}", training)
    if training.loaders and not training.obstacles and wanted != "distributed":
        reason = f"the program's own batches, of which each process loads its share{whole}"
        reason += _because(training.order_obstacles)
        return Sharing("batch", reason, training, tuple(training.order_obstacles))
    reason = SPLIT_AT_CALL + _because(against)
    return Sharing("call", reason, None, tuple(against))


def _because(places: list[Place]) -> str:
    """The first obstacle to a cheaper way."""
    return f" ({places[0].note}: {places[0].at.path}:{places[0].at.line})" if places else ""
