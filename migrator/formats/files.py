"""Reports of a conversion in a file, in the form that the file's suffix names.

In: what was converted, and a path.  Out: the file.  Raises `ReportError` with one clear line.
"""

from __future__ import annotations

from pathlib import Path

from migrator import formats
from migrator.formats.report import Report

SUFFIXES = (".html", *formats.SUFFIXES)


class ReportError(Exception):
    """The report cannot be made; the message says what to do."""


def check_report(path: Path, from_input: bool = False) -> None:
    """Refuse what cannot be made before the work is done rather than after it."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ReportError(f"{path}: the suffix names the form of a report; there is {', '.join(SUFFIXES)}")
    if suffix == ".html":
        _require_page()
        if from_input:
            raise ReportError(
                f"{path}: the page reads the program again, which standard input cannot give: give a file"
            )


def write_report(path: Path, report: Report) -> None:
    """Write a report."""
    data = report_bytes(path.suffix.lower(), report)
    try:
        path.write_bytes(data)
    except OSError as error:
        raise ReportError(f"{path}: cannot be written: {error.strerror or error}") from error


def report_bytes(suffix: str, report: Report) -> bytes:
    """A report in the form that a suffix names."""
    if suffix in formats.SUFFIXES:
        return formats.render(formats.SUFFIXES[suffix], report.conversions, report.errors)
    from migrator.review.page import page_bytes, render_page

    return page_bytes(render_page(report))


def _require_page() -> None:
    """Refuse where what the page is made with is not installed."""
    from importlib.util import find_spec

    missing = [name for name in ("jinja2", "pygments") if find_spec(name) is None]
    if missing:
        raise ReportError(f"the review page needs {' and '.join(missing)}: pip install 'mgmigrate[report]'")
