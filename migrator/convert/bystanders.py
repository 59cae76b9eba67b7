"""What a conversion must leave right although the program is not the only one to use it: shared modules, vendored copies.

In: a program and the diagnostics of its rules.  Out: the same without fixes that may not be, each with a question in its place,
or the reason why another way to share batches is needed.  Nothing is read but text, and nothing is written.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from codemods.base import Diagnostic, Level
from migrator.facts.program import Program
from migrator.facts.python.neighbours import other_programs_using
from migrator.facts.python.syntax import Span
from migrator.facts.python.vendored import vendored_folder

# Their results only work in a program whose processes have met, and that divides its batches in the same way.
_GROUP_ONLY = frozenset({"MG201", "MG202", "MG203", "MG204", "MG301", "MG305", "MG405", "MG702"})
_DROPS = "MG309"
_SPELLING = "MG00"  # what only says in today's words what is said already: several processes do not need it


def without_vendored(program: Program, diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """Fixes in copies of libraries are left to a person: the copy stays as it is."""
    root, entry = program.project.root, Path(program.entry_module.path)
    copies = {m.path: vendored_folder(Path(m.path), root, entry) for m in program.modules}
    if not any(copies.values()):
        return diagnostics
    return [_left_to_a_person(d, copies) if d.fix is not None else d for d in diagnostics]


def _left_to_a_person(diagnostic: Diagnostic, copies: dict[str, Path | None]) -> Diagnostic:
    assert diagnostic.fix is not None
    paths = dict.fromkeys([diagnostic.at.path, *(edit.at.path for edit in diagnostic.fix.edits)])
    folder = next((copies[path] for path in paths if copies.get(path) is not None), None)
    if folder is None:
        return diagnostic
    told = f"{diagnostic.message}: not converted, because {os.path.relpath(folder)} is a copy of a library, which stays as it is"
    level: Level = "note" if diagnostic.rule.startswith(_SPELLING) else "question"
    return replace(diagnostic, level=level, fix=None, message=told, applicability="display-only")


def needed_elsewhere(program: Program, diagnostics: Iterable[Diagnostic]) -> str:
    """Why shares of batches may not be made where they would be: another program runs the same function without them."""
    changed = [d for d in diagnostics if d.fix is not None and d.rule in _GROUP_ONLY]
    found = _used_by(program, [edit.at for d in changed if d.fix for edit in d.fix.edits])
    if found is None:
        return ""
    at, name, user = found
    return f"{name} is used by {user} too: {at.path}:{at.line}"


def without_drops(program: Program, diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """A wrapper that another program wants too is not dropped for one that only evaluates."""
    kept = []
    for d in diagnostics:
        found = _used_by(program, [d.at]) if d.fix is not None and d.rule == _DROPS else None
        if found is not None:
            told = f"{d.message}: not converted alone, because {found[2]} uses {found[1]} too; convert both at once"
            d = replace(d, level="question", fix=None, message=told, applicability="display-only")
        kept.append(d)
    return kept


def _used_by(program: Program, places: Iterable[Span]) -> tuple[Span, str, str] | None:
    """The first place in a definition of another module that another program names too, with both names."""
    homes: dict[tuple[str, str], Span] = {}
    for at in places:
        if at.path != program.entry_module.path:
            name = _definition(program, at)
            if name:
                homes.setdefault((at.path, name), at)
    users = other_programs_using(set(homes), program.project.modules, program.project.root) if homes else {}
    return next(((homes[home], f"{home[1]}()", os.path.relpath(user)) for home, user in users.items()), None)


def _definition(program: Program, at: Span) -> str:
    """The top-level function or class that a place is in."""
    module = program.module_at(at)
    for statement in module.tree.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef) and module.span(statement).contains(at):
            return statement.name
    return ""
