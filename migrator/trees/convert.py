"""Convert the programs of whole trees.

In: entries that the user named, and candidates from trees.  Out: for each, in order, its conversion, what is wrong with it, or
None for a candidate that is no program.  One program is in memory at a time; two processes share the work where there is
enough of it.  Nothing is written.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from codemods.options import Options
from migrator.convert.conversion import Choice, Conversion
from migrator.convert.pipeline import convert_loaded
from migrator.errors import internal_error
from migrator.facts.program import Program
from migrator.load.project import load_project
from migrator.load.source import Source, SourceError
from migrator.trees.scan import Candidate, is_program

WORKERS, ENOUGH = 2, 50  # below this number of programs, starting a process costs more than it saves
_CHUNK = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """A file to convert, the folder that it was found in, and whether it is only a candidate (None: the user named it)."""

    path: Path
    base: Path
    candidate: Candidate | None = None


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A program of a tree that is somebody else's."""

    path: str


Result = Conversion | SourceError | LeftAlone | None


def convert_entries(entries: Sequence[Entry], options: Options, choose: Choice | None = None) -> Iterator[Result]:
    """Convert every entry; an internal error is a result too, unless there is only one entry."""
    if len(entries) < ENOUGH or not hasattr(os, "fork"):
        for entry in entries:
            yield _convert(entry, options, choose, alone=len(entries) == 1)
            _let_go(len(entries))
        return
    import multiprocessing  # takes as long to import as a small program to convert

    yield _convert(entries[0], options)  # what this loads, the workers have
    with multiprocessing.get_context("fork").Pool(WORKERS, _begin, (options,)) as pool:
        yield from pool.imap(_work, entries[1:], chunksize=_CHUNK)


def _let_go(programs: int) -> None:
    """Free the program that was converted; its parts refer to each other, and Python would wait for many more of them."""
    if programs > 1:
        gc.collect()
        gc.freeze()  # what is left now is for good


def convert_source(entry: Path, source: Source, options: Options, choose: Choice | None = None) -> Conversion:
    """Convert a program whose text is not on the disk."""
    return convert_loaded(entry, Program(load_project(entry, source)), options, choose)


def _convert(entry: Entry, options: Options, choose: Choice | None = None, alone: bool = False) -> Result:
    try:
        program = Program(load_project(entry.path))
        if entry.candidate is not None and not is_program(entry.candidate, program):
            return None
        if entry.candidate is not None and entry.candidate.vendored:
            return LeftAlone(str(entry.path))
        return convert_loaded(entry.path, program, options, choose)
    except SourceError as error:
        return error.alone() if entry.candidate is None or entry.candidate.hit else None
    except RecursionError:
        return SourceError(str(entry.path), "is nested too deeply")
    except Exception as error:
        if alone or choose is not None:
            raise
        return SourceError(str(entry.path), internal_error(error))


_options: Options


def _begin(options: Options) -> None:
    global _options
    _options = options
    gc.freeze()


def _work(entry: Entry) -> Result:
    result = _convert(entry, _options)
    gc.collect()
    return result
