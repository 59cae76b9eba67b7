"""Places of the converted program that not all processes run: nothing that needs all of them may happen there."""

from __future__ import annotations

import ast

from migrator.facts.effects.once import OnceGroup, once_groups
from migrator.facts.processes.uniform import missing_file_test, waits_for_all
from migrator.facts.program import Program
from migrator.facts.python.syntax import Span

_AWAITED = ("remove", "shell", "download")  # what rank 0 does first, with all that stands beside it
_WRITERS = ("SummaryWriter", "visdom.Visdom", "tensorboard_logger.Logger")


def run_by_one(program: Program) -> list[Span]:
    """Guarded statements, the log writers that rank 0 alone makes, and what rank 0 prepares before the others."""
    groups, unguarded = once_groups(program, frozenset({"write", "remove", "shell", "open", "download"}))
    places = [statement for group in groups for statement in group.statements]
    awaited = [group for group in groups if is_awaited(group)]
    places += [place for group in awaited if (place := missing_file_test(program, group.statements[0])) is not None]
    places += [one.effect.path for one in unguarded if one.effect.kind == "open" and one.effect.path is not None]
    for effect in program.effects:
        if effect.kind == "sink":
            place = effect.at if effect.name.endswith(_WRITERS) else effect.path
            if place is not None:
                places.append(place)
    return places


def is_awaited(group: OnceGroup) -> bool:
    """True for what the other processes must not go on without: what is removed, linked, run by the shell or downloaded."""
    return any(effect.kind in _AWAITED or effect.name == "os.symlink" for effect in group.effects)


def prepared_first(program: Program, group: OnceGroup) -> Span | None:
    """The `if` around the group that asks whether files are missing, when all processes come to it.

    Where a folder is made there as well, which all processes may do, the one that writes would find it made by another.
    """
    if waits_for_all(program, group.statements[0]):
        return None
    place = missing_file_test(program, group.statements[0])
    makes = place is not None and any(e.kind == "folder" and place.contains(e.at) for e in program.effects)
    return place if makes or is_awaited(group) else None


def is_run_by_one(program: Program, at: Span, places: list[Span]) -> bool:
    """True for a place inside one of these, and for one in a function that is called from such places only."""
    if any(place.contains(at) for place in places):
        return True
    module = program.module_at(at)
    function = next((a for a in module.ancestors(module.expression_at(at)) if isinstance(a, ast.FunctionDef)), None)
    sites = program.resolver.call_sites(function) if function is not None else []
    return bool(sites) and all(any(one.contains(m.span(site)) for one in places) for m, site in sites)
