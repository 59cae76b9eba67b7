"""Annotations of GitHub's workflows: one command a line, which Actions shows beside the code.

A question is an error, a fix that is not taken yet a warning, a note a notice.
https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from codemods.base import Diagnostic
from migrator.convert.conversion import Conversion
from migrator.formats import file_and_cell
from migrator.formats.diff import rule_names
from migrator.load.source import SourceError

_COMMANDS = {"question": "error", "fix": "warning", "note": "notice"}
_BREAKS = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_MARKS = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def render(conversions: Sequence[Conversion], errors: Sequence[SourceError] = ()) -> str:
    """An annotation for each diagnostic and each file that could not be read."""
    rows = [_command("error", e.path, e.line, "mgmigrate", e.message) for e in errors]
    for conversion in conversions:
        rows += [_annotation(diagnostic) for diagnostic in conversion.diagnostics]
    return "".join(dict.fromkeys(rows))


def _annotation(diagnostic: Diagnostic) -> str:
    title = f"{diagnostic.rule} {rule_names().get(diagnostic.rule, '')}".rstrip()
    path, cell = file_and_cell(diagnostic.at.path)
    if cell:  # the file's lines are not the notebook's
        return _command(_COMMANDS[diagnostic.level], path, 0, f"{title} ({cell})", diagnostic.message)
    return _command(_COMMANDS[diagnostic.level], path, diagnostic.at.line, title, diagnostic.message)


def _command(name: str, path: str, line: int, title: str, message: str) -> str:
    marks = {"file": Path(os.path.relpath(path)).as_posix(), **({"line": str(line)} if line else {}), "title": title}
    told = ",".join(f"{key}={value.translate(_MARKS)}" for key, value in marks.items())
    return f"::{name} {told}::{message.translate(_BREAKS)}\n"
