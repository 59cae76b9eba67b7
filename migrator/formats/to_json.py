"""The documented JSON form of conversions (docs/json.md)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from codemods.base import Diagnostic
from migrator.convert.conversion import Conversion, FileChange
from migrator.convert.selection import fix_ids
from migrator.formats.diff import Hunk, hunks
from migrator.load.source import SourceError
from migrator.notebooks.cells import by_cell

SCHEMA_VERSION = 1


def render(conversions: Sequence[Conversion], errors: Sequence[SourceError] = ()) -> str:
    """The documented JSON form (docs/json.md)."""
    document = {
        "version": SCHEMA_VERSION,
        "programs": [_program(c) for c in conversions],
        "errors": [{"path": e.path, "line": e.line, "column": e.column, "message": e.message} for e in errors],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _program(conversion: Conversion) -> dict[str, Any]:
    ids = {diagnostic: name for name, diagnostic in fix_ids(conversion).items()}
    return {
        "entry": conversion.entry,
        "outcome": conversion.outcome,
        "exit_code": conversion.exit_code,
        "sharing": {"way": conversion.way, "reason": conversion.reason},
        "launch": conversion.launch,
        "diagnostics": [_diagnostic(d, ids.get(d, "")) for d in conversion.diagnostics],
        "files": [_file(change) for whole in conversion.changes for change in by_cell(whole)],
    }


def _diagnostic(diagnostic: Diagnostic, name: str) -> dict[str, Any]:
    edits = diagnostic.fix.edits if diagnostic.fix else ()
    return {
        "id": name,
        "rule": diagnostic.rule,
        "level": diagnostic.level,
        "applicability": diagnostic.applicability,
        "path": diagnostic.at.path,
        "line": diagnostic.at.line,
        "message": diagnostic.message,
        "edits": [
            {"kind": type(e).__name__, "line": e.at.line, "text": getattr(e, "text", getattr(e, "name", ""))}
            for e in edits
        ],
    }


def _file(change: FileChange) -> dict[str, Any]:
    return {"path": change.path, "new": change.before is None, "hunks": [_hunk(one) for one in hunks(change)]}


def _hunk(hunk: Hunk) -> dict[str, Any]:
    return {
        "old_start": hunk.old_start,
        "old_lines": hunk.old_lines,
        "new_start": hunk.new_start,
        "new_lines": hunk.new_lines,
        "lines": list(hunk.lines),
        "rules": [{"id": rule, "reason": reason} for rule, reason in hunk.labels],
    }
