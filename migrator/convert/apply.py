"""Plan and rewrite: the fixes of a program become changed files.

In: a program and diagnostics.  Out: the changes, and the diagnostics, in which a fix that collides with an earlier one has
become a question, whole.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from codemods.base import Diagnostic
from codemods.options import Options
from migrator.convert.conversion import FileChange
from migrator.convert.helpers import with_needs
from migrator.convert.place_helpers import place_helpers, respell_edit, respelled_helpers
from migrator.edits import AddHelper, AddImport, Labelled, ReplaceText
from migrator.facts.program import Program
from migrator.facts.python.syntax import Module
from migrator.launch.scripts import read_script
from migrator.load.project import Project
from migrator.rewrite.imports import import_edits
from migrator.rewrite.unused import unused_imports
from migrator.timing import stage

if TYPE_CHECKING:
    from migrator.rewrite.apply import Rewritten


@stage("rewriting")
def apply_fixes(
    project: Project, program: Program, diagnostics: list[Diagnostic], options: Options
) -> tuple[list[Diagnostic], list[FileChange]]:
    """Rewrite all files; a fix that collides with an earlier one becomes a question, whole."""
    from migrator.rewrite.conflicts import EditConflict

    while True:
        try:
            return diagnostics, _rewrite(project, program, diagnostics, options)
        except EditConflict as conflict:
            loser = next(
                (
                    d
                    for d in reversed(diagnostics)
                    if d.rule in conflict.rules
                    and d.fix
                    and any(e.at == conflict.at or e.at.start == conflict.at.start for e in d.fix.edits)
                ),
                None,
            ) or next(d for d in reversed(diagnostics) if d.rule in conflict.rules and d.fix)
            message = f"{loser.message}: not converted, because {conflict.reason}"
            diagnostics = [
                replace(d, level="question", fix=None, message=message) if d is loser else d for d in diagnostics
            ]


def _rewrite(project: Project, program: Program, diagnostics: list[Diagnostic], options: Options) -> list[FileChange]:
    from migrator.rewrite.apply import apply_edits

    labelled = [Labelled(edit, d.rule, d.fix.reason, d.at) for d in diagnostics if d.fix for edit in d.fix.edits]
    names = [one.edit.name for one in labelled if isinstance(one.edit, AddHelper)]
    respelled = respelled_helpers(program, [helper.name for helper in with_needs(names)])
    if respelled:
        labelled = [
            one if isinstance(one.edit, AddHelper) else replace(one, edit=respell_edit(one.edit, respelled))
            for one in labelled
        ]
    plain = [one for one in labelled if not isinstance(one.edit, AddImport | AddHelper)]
    if not plain:
        return []
    by_path: dict[str, list[Labelled]] = defaultdict(list)
    texts: dict[str, list[Labelled]] = defaultdict(list)
    for one in plain:
        (texts if isinstance(one.edit, ReplaceText) else by_path)[one.edit.at.path].append(one)
    new_files: list[FileChange] = []
    wanted_helpers = [x for x in labelled if isinstance(x.edit, AddHelper)]
    for one in place_helpers(project, program, wanted_helpers, new_files, options.inline_helpers, respelled):
        if isinstance(one.edit, AddImport):
            labelled.append(one)
        else:
            by_path[one.edit.at.path].insert(0, one)  # a flat script calls them right there
    own = frozenset(part for module in project.modules.values() for part in module.name.split("."))
    for module in program.modules:
        wanted = [one for one in labelled if isinstance(one.edit, AddImport) and one.edit.at.path == module.path]
        by_path[module.path] += import_edits(
            module, wanted, own, program.entry.first if module is program.entry_module else None
        )
    changes = []
    for module in program.modules:
        if by_path[module.path]:
            rewritten = apply_edits(module.text, by_path[module.path], module.tree)
            unused = unused_imports(project, module, by_path[module.path], rewritten.text)
            if unused:
                rewritten = apply_edits(module.text, [*by_path[module.path], *unused], module.tree)
            changes.append(_change(module, rewritten))
    return [*changes, *new_files, *(_text_change(project, path, edits) for path, edits in texts.items())]


def _text_change(project: Project, path: str, edits: list[Labelled]) -> FileChange:
    """The change of a file that is no Python."""
    source = read_script(project, Path(path))
    text = source.text
    for one in sorted(edits, key=lambda one: one.edit.at.start, reverse=True):
        assert isinstance(one.edit, ReplaceText)
        text = text[: one.edit.at.start] + one.edit.text + text[one.edit.at.end :]
    labels = {one.edit.at.line: frozenset({one.label}) for one in edits}  # a launch line stays one line
    return FileChange(path, source.text, text, source, labels, labels)


def _change(module: Module, rewritten: Rewritten) -> FileChange:
    after = re.sub(r"\basinc(\s*=)", r"async\1", rewritten.text) if "asinc" in rewritten.text else rewritten.text
    return FileChange(module.path, module.source.text, after, module.source, rewritten.before, rewritten.after)
