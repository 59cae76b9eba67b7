"""What a tracker is told about its mode: online, offline, or not at all.

In: a `Program` and the call that starts the tracker.  Out: the mode that the program gives, and the dictionary of arguments that may
hold one.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from migrator.facts.program import Program
from migrator.facts.python.nodes import argument
from migrator.facts.python.syntax import Span


@dataclass(frozen=True, slots=True)
class RunMode:
    """`mode` is the text of the argument, `unpacked` the place of the last `**arguments`, with its text."""

    mode: str
    unpacked: Span | None
    unpacked_text: str


def run_mode(program: Program, at: Span) -> RunMode:
    """The mode of the call at a place; the text is `None` where it gives none."""
    module = program.module_at(at)
    call = next(n for n in module.nodes if isinstance(n, ast.Call) and module.span(n) == at)
    own = argument(call, "mode", None)
    unpacked = [k.value for k in call.keywords if k.arg is None]
    last = unpacked[-1] if unpacked and own is None else None
    return RunMode(
        module.segment(own) if own is not None else "None",
        module.span(last) if last is not None else None,
        module.segment(last) if last is not None else "",
    )
