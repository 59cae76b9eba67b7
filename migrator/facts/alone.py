"""Places of the converted program that not all processes run: nothing that needs all of them may happen there."""

from __future__ import annotations

from migrator.facts.once import once_groups
from migrator.facts.program import Program
from migrator.facts.syntax import Span
from migrator.facts.uniform import missing_file_test

_AWAITED = ("remove", "shell", "download")  # what rank 0 does first, with all that stands beside it
_WRITERS = ("SummaryWriter", "visdom.Visdom", "tensorboard_logger.Logger")


def run_by_one(program: Program) -> list[Span]:
    """Guarded statements, the log writers that rank 0 alone makes, and what rank 0 prepares before the others."""
    groups, unguarded = once_groups(program, frozenset({"write", "remove", "shell", "open", "download"}))
    places = [statement for group in groups for statement in group.statements]
    awaited = [group for group in groups if any(effect.kind in _AWAITED for effect in group.effects)]
    places += [place for group in awaited if (place := missing_file_test(program, group.statements[0])) is not None]
    places += [one.effect.path for one in unguarded if one.effect.kind == "open" and one.effect.path is not None]
    for effect in program.effects:
        if effect.kind == "sink":
            place = effect.at if effect.name.endswith(_WRITERS) else effect.path
            if place is not None:
                places.append(place)
    return places
