"""Files that stay open, and log writers, of which one process has the real one: what the others have in their place."""

from __future__ import annotations

import re

from codemods.base import Context
from migrator.edits import Edit, InsertAfter, Replace
from migrator.facts.effects.effects import FILES_OF_MANY
from migrator.facts.model import Effect
from migrator.facts.processes.uniform import waits_for_all
from migrator.facts.python.syntax import Span

_READ_AND_WRITTEN = re.compile(r"""["']r[bt]?\+[bt]?["']""")  # an empty file in its place has nothing to read
_ADDED_TO = re.compile(r"""["']a["']""")


def written_by_one(context: Context, path: Span) -> tuple[Edit, ...]:
    """Nothing is written in the other processes."""
    test, imports = context.is_rank_zero(path)
    os, more = context.module(path, "os")
    return (*imports, *more, Replace(path, f"$0 if {test} else {os}.devnull", (path,)))


def held_by_one(context: Context, effect: Effect) -> tuple[Edit, ...] | None:
    """The same for a file that is open while the program does more than write; None where the file is read as well.

    A file of many things is made in memory by the others, who may ask it for its parts, and waited for where it is closed.
    """
    text, many = context.program.text(effect.at), effect.name in FILES_OF_MANY
    if effect.path is None or _READ_AND_WRITTEN.search(text) or (many and _ADDED_TO.search(text)):
        return None
    if not many:
        return written_by_one(context, effect.path)
    test, imports = context.is_rank_zero(effect.at)
    io, more = context.module(effect.path, "io")
    edits = [*imports, *more, Replace(effect.path, f"$0 if {test} else {io}.BytesIO()", (effect.path,))]
    if context.program.text(effect.statement).startswith("with ") and waits_for_all(context.program, effect.statement):
        edits.append(InsertAfter(effect.statement, context.barrier(effect.statement)))
    return tuple(edits)


def told_by_one(context: Context, asked: Span) -> tuple[Edit, ...]:
    """What the one writer says, for all."""
    test, imports = context.is_rank_zero(asked)
    told = Replace(asked, f"from_rank_zero($0 if {test} else None)", (asked,))
    return (*imports, context.helper(asked, "from_rank_zero"), told)
