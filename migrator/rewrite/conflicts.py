"""Edits that cannot all be made: two claim one place, or one would undo another.

In: labelled edits, by the node that they are about.  Out: nothing, or an `EditConflict`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from migrator.edits import DropArgument, Inline, Labelled, Remove, Replace, SetArgument
from migrator.facts.python.syntax import Span


class EditConflict(Exception):
    """An edit that cannot be made: two want the same place, or its place cannot be found; `rules` are their ids."""

    def __init__(self, at: Span, rules: Sequence[str], reason: str = ""):
        self.at, self.rules = at, tuple(dict.fromkeys(rules))
        self.reason = reason or f"{' and '.join(self.rules)} both want to change this place"
        super().__init__(f"{at.path}:{at.line}: {self.reason}")


def is_gone(one: Labelled, labelled: list[Labelled]) -> bool:
    """True when another edit takes the whole place out of the program."""
    takers = (Replace, SetArgument, DropArgument, Remove, Inline)
    return any(
        other is not one and isinstance(other.edit, takers) and other.edit.at.contains(one.edit.at)
        for other in labelled
    )


def refuse_conflicts(
    text: str,
    labelled: Sequence[Labelled],
    expressions: Mapping[int, list[Labelled]],
    statements: Mapping[int, list[Labelled]],
    guards: Mapping[int, Labelled],
) -> None:
    for group in expressions.values():
        replaces = [one for one in group if isinstance(one.edit, Replace)]
        if len(replaces) > 1:
            raise EditConflict(replaces[0].edit.at, [one.rule for one in replaces])
        names: dict[str, Labelled] = {}
        for one in group:
            if isinstance(one.edit, SetArgument | DropArgument):
                if one.edit.name in names:
                    raise EditConflict(one.edit.at, [names[one.edit.name].rule, one.rule])
                names[one.edit.name] = one
    for key, group in statements.items():
        exclusive = [one for one in group if isinstance(one.edit, Remove | Inline)]
        exclusive += [guards[key]] if key in guards and exclusive else []
        if len(exclusive) > 1:
            raise EditConflict(exclusive[0].edit.at, [one.rule for one in exclusive])
    _refuse_swallowed(text, labelled)


def _refuse_swallowed(text: str, labelled: Sequence[Labelled]) -> None:
    """A replacement that spells out again what another edit changes would undo it (what it leaves out may go)."""
    for outer in labelled:
        if not isinstance(outer.edit, Replace):
            continue
        for one in labelled:
            at = one.edit.at
            if one is outer or at == outer.edit.at or not outer.edit.at.contains(at):
                continue
            kept = any(hole.contains(at) for hole in outer.edit.holes)
            if not kept and text[at.start : at.end] in outer.edit.text:
                raise EditConflict(at, [outer.rule, one.rule])
