"""The way in which the processes of the converted program share a batch, and why.

Three ways, cheapest first: `distributed` (a DistributedSampler per training loader), `batch` (the original batches, split
over ranks before they are loaded) and `call` (whole batches everywhere, split at the wrapped call as DataParallel did).
The cheapest one that is known to be exact for this program is chosen; whatever cannot be resolved takes `call`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from migrator.facts.model import Place
from migrator.facts.program import Program
from migrator.facts.training import Training, read_training

Way = Literal["distributed", "batch", "call"]


@dataclass(frozen=True, slots=True)
class Sharing:
    """The chosen way; `obstacles` are the places that spoke against a cheaper one; `training` what is known of the loop."""

    way: Way
    reason: str
    training: Training | None = None
    obstacles: tuple[Place, ...] = ()


def choose_sharing(program: Program, wanted: str = "auto") -> Sharing:
    """Choose the cheapest exact way for a program, or the one that the user asks for."""
    training = read_training(program)
    obstacles = tuple(training.obstacles)
    if wanted == "call":
        return Sharing("call", "asked for: the batch is split where the model is called", None)
    if not obstacles and training.loaders:
        return Sharing("distributed", "each process loads its own share of every batch", training)
    reason = "the batch is split where the model is called, exactly as DataParallel split it"
    if obstacles:
        first = obstacles[0]
        reason += f" (not where it is loaded: {first.note}, {first.at.path}:{first.at.line})"
    return Sharing("call", reason, None, obstacles)
