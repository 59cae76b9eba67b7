"""Convert one program: load, collect facts, check rules, plan, rewrite.

In: an entry file and options.  Out: a `Conversion` with the changed files, every diagnostic and the launch line.  Nothing is
written, printed or executed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from codemods.options import Options
from migrator.convert.conversion import Choice, Conversion
from migrator.convert.data_parallel import convert_project
from migrator.convert.hints import with_hints
from migrator.facts.processes.ddp_form import is_ddp_form
from migrator.facts.program import Program
from migrator.load.project import load_project
from migrator.load.source import Source


def convert_program(
    entry: Path,
    options: Options,
    source: Source | None = None,
    overlay: Mapping[Path, Source] | None = None,
    choose: Choice | None = None,
) -> Conversion:
    """Convert the program behind an entry file; raises `SourceError` when the entry cannot be read or parsed.

    `overlay` holds files, by absolute path, that are to be taken instead of what the disk holds; `choose` may leave fixes out.
    """
    return convert_loaded(entry, Program(load_project(entry, source, overlay)), options, choose, overlay)


def convert_loaded(
    entry: Path,
    program: Program,
    options: Options,
    choose: Choice | None = None,
    overlay: Mapping[Path, Source] | None = None,
) -> Conversion:
    """The same for a program that is loaded and linked already."""
    program = with_hints(program, options)
    if options.target == "accelerate" and is_ddp_form(program):
        from migrator.convert.from_ddp import convert_from_ddp

        return _whole(convert_from_ddp(entry, program, options, overlay or {}, convert_program), choose)
    if entry.suffix == ".ipynb":
        from migrator.notebooks.launch import convert_notebook

        return convert_notebook(entry, program, options, choose)
    return convert_project(entry, program, options, choose)


def _whole(conversion: Conversion, choose: Choice | None) -> Conversion:
    """A conversion of which all fixes are one: without one of them nothing is left."""
    left_out = choose(conversion) if choose is not None else {}
    if not left_out:
        return conversion
    told = (left_out.get(d, d) for d in conversion.diagnostics)
    rows = tuple(d for d in told if d is not None)
    return replace(conversion, outcome="unchanged", changes=(), diagnostics=rows, launch="", way="", reason="")
