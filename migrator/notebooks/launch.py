"""Convert a notebook: its cells as one program, with a function that `notebook_launcher` starts.

In: a linked program whose entry is a notebook, and options.  Out: a `Conversion` whose places are cells (`x.ipynb:cell 3`, and
the line in that cell).  Nothing is written or executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from codemods.base import Diagnostic
from codemods.options import Options
from migrator.convert.conversion import JOINS, Choice, Conversion, FileChange
from migrator.convert.data_parallel import convert_project
from migrator.convert.diagnose import diagnose
from migrator.facts.model import Entry, Region
from migrator.facts.program import Program
from migrator.facts.python.syntax import Span
from migrator.facts.region import find_region
from migrator.notebooks.gathering import gather
from migrator.notebooks.notebook import Notebook, place_in_cell

# What happens once in any case where one process runs it: files, folders, logs, metrics.
_ONCE = ("MG5", "MG6", "MG7")
_RULE = "MG111"
_FRONT = re.compile(r"  # mgmigrate magic (\d+)$", re.MULTILINE)


def convert_notebook(entry: Path, program: Program, options: Options, choose: Choice | None = None) -> Conversion:
    """Convert the program of a notebook's cells."""
    source = program.entry_module.source
    region = _region(program, options) if program.wraps and program.trains and not program.is_joined else None
    if region is not None:
        program = Program(program.project)
        program.region = region
        program.entry = Entry("flat", region.first, region.last)
        program.seeds_itself = True  # forks go on with the random numbers of the notebook

    def chosen(whole: Conversion) -> Mapping[Diagnostic, Diagnostic | None]:
        left: dict[Diagnostic, Diagnostic | None] = {}
        left |= {d: replace(d, level="note", fix=None, message="") for d in whole.diagnostics if _is_idle(d, region)}
        if choose is not None:
            shown = {_placed(d, source): d for d in whole.diagnostics}
            left |= {shown[d]: other for d, other in choose(_in_cells(whole, source)).items()}
        return left

    done = convert_project(entry, program, options, chosen)
    told = [d for d in done.diagnostics if d.message]
    if region is not None:
        told = [
            d for d in told if not (_is_before(d.at, region) and d.rule.startswith((*_ONCE, "MG102")) and not d.fix)
        ]
    done = replace(done, diagnostics=tuple(told))
    fixed = {d.rule for d in done.diagnostics if d.fix}
    if region is not None and fixed & JOINS and _RULE in fixed:
        done = replace(done, changes=tuple(_launched(c, program, region, options) for c in done.changes))
        done = replace(done, diagnostics=(*done.diagnostics, *_lost_magics(done, region)))
        done = replace(
            done, launch=f"run all cells of {done.entry} in a fresh kernel: the launching cell starts the processes"
        )
    elif region is not None:
        done = replace(done, launch="")
    if program.wraps or program.mentions:
        done = replace(done, diagnostics=(*_hidden_code(source), *done.diagnostics))
    return _in_cells(done, source)


def _hidden_code(source: object) -> Iterator[Diagnostic]:
    """Questions about DataParallel in cells that are not the notebook's Python (`%%writefile`, `%%bash`)."""
    for number, text in enumerate(source.magics if isinstance(source, Notebook) else ()):
        if isinstance(source, Notebook) and "DataParallel" in text:
            at = source.text.index(f"mgmigrate magic {number}")
            line = source.text.count("\n", 0, at) + 1
            message = f"this names DataParallel and is not Python of the notebook (`{text.split()[0]}`): convert what it makes"
            yield Diagnostic(_RULE, Span(source.path, 0, 0, line), message, "question", None, "display-only")


def _lost_magics(done: Conversion, region: Region) -> Iterator[Diagnostic]:
    """A note where a statement moved without the magic in front of it."""
    for change in done.changes:
        if change.path == region.first.path and change.before is not None:
            lost = set(_FRONT.findall(change.before)) - set(_FRONT.findall(change.after))
            if lost:
                message = (
                    "magics in front of statements (`%time`) went: in a function they would keep names to themselves"
                )
                yield Diagnostic(_RULE, region.first, message, "note", None, "display-only")


def _region(program: Program, options: Options) -> Region | None:
    """What every process has to run, as the edits of a script tell."""
    _, diagnostics = diagnose(program, options)
    places: list[Span] = []
    direct: set[Span] = set()
    for diagnostic in diagnostics:
        if diagnostic.fix is not None and diagnostic.rule not in (*JOINS, "MG102"):
            spans = [edit.at for edit in diagnostic.fix.edits if not type(edit).__name__.startswith("Add")]
            places += spans
            direct |= set() if diagnostic.rule.startswith(_ONCE) else set(spans)
    return find_region(program, places, direct)


def _is_idle(diagnostic: Diagnostic, region: Region | None) -> bool:
    """A fix that a notebook does not need: its own process does these things once, and chooses the GPUs for all."""
    if diagnostic.fix is None or region is None:
        return False
    if diagnostic.rule == "MG102":
        return True
    return diagnostic.rule.startswith(_ONCE) and _is_before(diagnostic.at, region)


def _is_before(at: Span, region: Region) -> bool:
    return at.path == region.first.path and at.start < region.first.start and not region.is_defined(at)


def _launched(change: FileChange, program: Program, region: Region, options: Options) -> FileChange:
    if change.path != program.entry_module.path:
        return change
    processes = str(options.nproc) if options.nproc else "torch.cuda.device_count()"
    words = [f"num_processes={processes}"]
    if options.master_port:
        words.append(f'use_port="{options.master_port}"')
    if options.nodes > 1:
        words.append(f"num_nodes={options.nodes}, node_rank=RANK, master_addr=HOST")
    name = program.free_name("training_function", region.first)
    choices, shown = ([program.text(span) for span in spans] for spans in (region.choices, region.shown))
    launch = f"notebook_launcher({name}, {', '.join(words)})"
    reason = "one function is what every process runs; the notebook launches it"
    return gather(change, name, launch, choices, shown, (_RULE, reason, region.first))


def _in_cells(conversion: Conversion, source: object) -> Conversion:
    """The conversion with places that a notebook's user knows."""
    if not isinstance(source, Notebook):
        return conversion
    told = tuple(_placed(d, source) for d in conversion.diagnostics)
    return replace(conversion, diagnostics=told, reason=_in_words(conversion.reason, source))


def _in_words(text: str, source: Notebook) -> str:
    """Text with its places in the notebook's program spelled by cells."""

    def place(match: re.Match[str]) -> str:
        cell, line = place_in_cell(source.text, int(match[1]))
        return f"{source.path}:cell {cell}:{line}"

    return re.sub(rf"{re.escape(source.path)}:(\d+)", place, text)


def _placed(diagnostic: Diagnostic, source: object) -> Diagnostic:
    if not isinstance(source, Notebook):
        return diagnostic
    message = _in_words(diagnostic.message, source)
    if diagnostic.at.path != source.path:
        return replace(diagnostic, message=message)
    cell, line = place_in_cell(source.text, diagnostic.at.line)
    return replace(diagnostic, message=message, at=replace(diagnostic.at, path=f"{source.path}:cell {cell}", line=line))
