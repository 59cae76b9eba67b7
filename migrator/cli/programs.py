"""Convert what a command line names: files, folders, or what comes on standard input."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from migrator.cli.console import fail, tell
from migrator.cli.settling import settle_above, walk_settled

if TYPE_CHECKING:
    from codemods.options import Options
    from migrator.convert.conversion import Choice, Conversion
    from migrator.load.source import SourceError
    from migrator.trees.convert import Entry


def named_programs(paths: Sequence[Path], options: Options) -> tuple[list[Entry], list[SourceError]]:
    """The files to convert, and what could not be read on the way to them."""
    from migrator.policies import PolicyError, named_entries
    from migrator.trees.convert import Entry
    from migrator.trees.scan import candidates

    settle_above(*paths)
    entries: dict[Path, Entry] = {}
    problems: list[SourceError] = []
    for path in paths:
        if path.is_dir():
            try:
                named = named_entries(path, options)
            except PolicyError as error:
                fail(str(error), 2)
            entries.update((one.resolve(), Entry(one, path)) for one in named)
            found, unread = ([], []) if named else candidates(walk_settled(path))
            problems += unread
            for one in found:
                entries.setdefault(one.path.resolve(), Entry(one.path, path, one))
        elif path.is_symlink() and not path.exists():
            fail(f"{path}: is a broken symbolic link")
        elif not path.exists():
            fail(f"{path}: no such file or folder")
        else:
            entries[path.resolve()] = Entry(path, path.parent)
    return list(entries.values()), problems


def convert_all(
    entries: Sequence[Entry], options: Options, choose: Choice | None = None
) -> tuple[list[Conversion], list[Path], list[SourceError]]:
    """Convert each program; what cannot be read is an error of its own and stops no other."""
    from migrator.convert.selection import SelectionError
    from migrator.load.source import SourceError
    from migrator.trees.convert import LeftAlone, convert_entries
    from migrator.trees.scan import VENDORED

    done: list[Conversion] = []
    bases: list[Path] = []
    errors: list[SourceError] = []
    try:
        for entry, result in zip(entries, convert_entries(entries, options, choose), strict=True):
            if isinstance(result, SourceError):
                errors.append(result)
            elif isinstance(result, LeftAlone):
                tell(f"mgmigrate: {result.path}: {VENDORED}\n")
            elif result is not None:
                done.append(result)
                bases.append(entry.base)
    except SelectionError as error:
        fail(str(error), 2)
    return done, bases, errors


def convert_input(options: Options, choose: Choice | None) -> tuple[list[Conversion], list[Path], list[SourceError]]:
    """Convert what comes on standard input."""
    from migrator.load.read import decode_source
    from migrator.load.source import SourceError
    from migrator.trees.convert import convert_source

    name = Path("stdin.py")
    try:
        source = decode_source(str(name), sys.stdin.buffer.read())
        return [convert_source(name, source, options, choose)], [Path()], []
    except SourceError as error:
        return [], [], [error]


def convert_paths(paths: Sequence[Path], options: Options) -> tuple[list[Conversion], list[SourceError]]:
    """Convert the programs behind the paths that a command was given."""
    entries, problems = named_programs(paths, options)
    conversions, _, errors = convert_all(entries, options)
    return conversions, errors + problems
