"""Convert a DataParallel program of Python files.

In: a linked program and options.  Out: a `Conversion`, with the fixes that the user leaves out left out whole.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from codemods.base import Diagnostic
from codemods.options import Options
from codemods.registry import load_rules
from migrator.convert.apply import apply_fixes
from migrator.convert.conversion import JOINS, WRAPS, Choice, Conversion, FileChange
from migrator.convert.diagnose import diagnose, policies_of, problem, selected, whole_or_nothing
from migrator.facts.program import Program
from migrator.facts.python.syntax import Span
from migrator.facts.training.sharing import Sharing
from migrator.facts.wraps.handed_wrappers import HANDED, handed_wrappers
from migrator.facts.wraps.unlinked import unlinked_wraps
from migrator.launch.command import launch_line


def convert_project(entry: Path, program: Program, options: Options, choose: Choice | None = None) -> Conversion:
    """The same for a DataParallel program of Python files."""
    project = program.project
    shown = project.entry.path
    if not program.wraps:
        return _nothing_to_do(program, shown, tuple(problem(error) for error in project.problems), options)
    sharing, diagnostics = diagnose(program, replace(options, select=(), ignore=()))
    diagnostics = whole_or_nothing(program, diagnostics, options)
    diagnostics, changes = apply_fixes(project, program, diagnostics, options)
    conversion = _conversion(program, options, sharing, diagnostics, changes)
    for left_out in (_by_rule(options), choose):
        told = left_out(conversion) if left_out is not None else {}
        if not told:
            continue
        rows = [told.get(d, d) for d in diagnostics]
        diagnostics, changes = apply_fixes(project, program, [d for d in rows if d is not None], options)
        conversion = _conversion(program, options, sharing, diagnostics, changes)
        if program.trains and not any(d.fix and d.rule in JOINS | WRAPS for d in diagnostics):  # it stays one process
            conversion = replace(conversion, launch=f"python {project.command}", way="", reason="")
    return conversion


def _by_rule(options: Options) -> Choice | None:
    """What leaves out the rules that are not selected."""
    if not options.select and not options.ignore:
        return None
    from migrator.convert.selection import unselected

    return unselected({rule.id for rule in load_rules() if not selected(rule, options)})


def _conversion(
    program: Program, options: Options, sharing: Sharing, diagnostics: list[Diagnostic], changes: list[FileChange]
) -> Conversion:
    shown = program.project.entry.path
    return Conversion(
        shown,
        "converted" if changes else "unchanged",
        tuple(changes),
        tuple(sorted(diagnostics, key=lambda d: (d.at.path != shown, d.at.path, d.at.line, d.rule))),
        launch_line(program.project, options) if program.trains else f"python {program.project.command}",
        sharing.way,
        sharing.reason,
        policies_of(diagnostics, options),
    )


def _nothing_to_do(program: Program, shown: str, problems: tuple[Diagnostic, ...], options: Options) -> Conversion:
    module = program.entry_module
    start = Span(module.path, 0, 0, 1)
    rows = list(problems)
    rows += [
        Diagnostic(
            "MG901", one.at, f"{one.name} ({one.reason}) is not torch's DataParallel", "question", None, "display-only"
        )
        for one in program.look_alikes
    ]
    handed = handed_wrappers(program)
    rows += [Diagnostic("MG901", at, f"{text} {HANDED}", "question", None, "display-only") for at, text in handed]
    for wrap in unlinked_wraps(program):
        told = f"{wrap.text} in a file that {wrap.loader} may load, and nothing is known of it: import it by its name, and run again"
        rows.append(Diagnostic("MG905", Span(wrap.path, 0, 0, wrap.line), told, "question", None, "display-only"))
    if not any(row.level == "question" for row in rows):  # a question is not nothing
        why = (
            "DataParallel is only mentioned, never called"
            if program.mentions
            else "this program does not use DataParallel"
        )
        rows.append(Diagnostic("MG000", start, f"nothing to do: {why}", "note"))
    return Conversion(shown, "nothing", (), tuple(rows), "")
