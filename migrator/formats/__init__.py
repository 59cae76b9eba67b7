"""Reports for other tools: one module each, `render(conversions, errors)` gives the whole text.

In: converted programs, and what could not be read.  Out: text, or bytes where a diff keeps the encodings of its files.
Nothing is printed or written here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from migrator.convert.conversion import Conversion, FileChange
    from migrator.load.source import SourceError

# Name of the form to module.
FORMATS = {"json": "to_json", "sarif": "sarif", "github": "github", "markdown": "markdown", "patch": "patch"}
_CELL = re.compile(r"(.*\.ipynb):(cell \d+)")
# Suffix of a report's file to name of the form.
SUFFIXES = {".json": "json", ".sarif": "sarif", ".md": "markdown", ".patch": "patch"}


def render(name: str, conversions: Sequence[Conversion], errors: Sequence[SourceError] = ()) -> bytes:
    """A report in one of the forms, as bytes to write."""
    text: str | bytes = import_module(f"migrator.formats.{FORMATS[name]}").render(conversions, errors)
    return text if isinstance(text, bytes) else text.encode("utf-8", "backslashreplace")


def file_and_cell(path: str) -> tuple[str, str]:
    """The file of a place, and which of its cells it is where the file is a notebook."""
    found = _CELL.fullmatch(path)
    return (found[1], found[2]) if found else (path, "")


def distinct_changes(conversions: Sequence[Conversion]) -> Iterator[tuple[Conversion, FileChange]]:
    """The changes of all programs; a module that several share, once."""
    seen: set[tuple[str, str]] = set()
    for conversion in conversions:
        for change in conversion.changes:
            if (change.path, change.after) not in seen:
                seen.add((change.path, change.after))
                yield conversion, change
