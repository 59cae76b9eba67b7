"""Put what a conversion gives on the disk: the files, a configuration for the launcher, a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from migrator.cli.console import fail

if TYPE_CHECKING:
    from codemods.options import Options
    from migrator.convert.conversion import Conversion
    from migrator.load.source import SourceError


def write_changes(
    conversions: list[Conversion],
    bases: list[Path],
    options: Options,
    output: Path | None,
    allow_dirty: bool,
    partial: bool,
) -> None:
    from migrator.convert.helpers import is_helper_module
    from migrator.write.files import WriteError, check_result, dirty_files, target_contents, write_files

    try:
        for conversion in conversions:
            check_result(conversion, options, partial, conversions)
        contents = target_contents(conversions, output, bases)
        for target, data in contents.items():
            if output is not None and is_helper_module(target.stem) and target.exists() and target.read_bytes() != data:
                raise WriteError(
                    f"{target}: holds the helpers of another conversion; give this one a folder of its own"
                )
        if output is None and not allow_dirty:
            dirty = dirty_files(list(contents))
            if dirty:
                more = f" and {len(dirty) - 3} more" if len(dirty) > 3 else ""
                what = f"{', '.join(dirty[:3])}{more}: not committed to git"
                raise WriteError(f"{what}; commit, so that you can go back, or give --allow-dirty")
        write_files(contents)
    except WriteError as error:
        fail(f"{error}; {error.outcome}")


def write_launch_config(path: Path, options: Options) -> None:
    from migrator.launch.command import launch_config

    try:
        path.write_text(launch_config(options), encoding="utf-8")
    except OSError as error:
        fail(f"{path}: cannot be written: {error.strerror}")


def check_report_file(path: Path | None, dash: bool) -> None:
    """A report that cannot be made is refused before the work is done."""
    if path is None:
        return
    from migrator.formats.files import ReportError, check_report

    try:
        check_report(path, dash)
    except ReportError as error:
        fail(str(error), 2)


def write_report_file(
    path: Path, conversions: Sequence[Conversion], errors: Sequence[SourceError], options: Options
) -> None:
    from migrator.formats.files import ReportError, write_report
    from migrator.formats.report import Report

    try:
        write_report(path, Report(conversions, errors, options))
    except ReportError as error:
        fail(str(error))
