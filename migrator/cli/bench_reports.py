"""Reports of bench, printed, kept, shown again and compared."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.compare import compare_reports, to_json
from benchmarks.compare import to_text as differences
from benchmarks.page import to_html
from benchmarks.results import Report, ResultError, dump, read
from benchmarks.show import to_markdown, to_text
from migrator.cli.console import fail, put, tell


def show(report: Report, output_format: str, html: Path | None) -> None:
    """Print a report in the form that was asked for, and write its page."""
    if html is not None:
        write(html, to_html(report))
    if output_format == "json":
        put(json.dumps(dump(report), indent=1, ensure_ascii=False) + "\n")
    else:
        put({"text": to_text, "markdown": to_markdown, "html": to_html}[output_format](report))


def write(path: Path, text: str) -> None:
    """Write a file; where that fails the report is still shown."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        tell(f"mgmigrate: {path}: cannot be written: {error}\n")


def show_kept(words: list[Path], output_format: str, html: Path | None) -> None:
    """`bench show A.json`."""
    if len(words) != 1:
        fail("bench show takes one report: A.json", 2)
    try:
        report = read(words[0])
    except ResultError as error:
        fail(str(error))
    show(report, output_format, html)


def compare(words: list[Path], output_format: str, html: Path | None) -> None:
    """`bench compare A.json B.json`."""
    if len(words) != 2:
        fail("bench compare takes two reports: A.json B.json", 2)
    try:
        difference = compare_reports(read(words[0]), read(words[1]))
    except ResultError as error:
        fail(str(error))
    put(to_json(difference) if output_format == "json" else differences(difference, str(words[0]), str(words[1])))
