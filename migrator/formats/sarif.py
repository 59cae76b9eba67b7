"""SARIF 2.1.0: what code scanning reads, with the fixes.

A question is an error, a fix that is not taken yet a warning.  All fixes applied together make what `convert --write` makes:
each changed block of lines belongs to one fix, the first of those that made it.  Lines are counted from 1 by line feeds,
columns in UTF-16 code units from 1.  https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from codemods.base import Diagnostic, Rule
from codemods.registry import load_rules
from migrator.convert.conversion import Conversion, FileChange
from migrator.convert.selection import fix_ids
from migrator.formats import file_and_cell
from migrator.formats.diff import numbered_lines
from migrator.load.source import Source, SourceError
from migrator.notebooks.notebook import Notebook

_LEVELS = {"question": "error", "fix": "warning", "note": "note"}
_APPLICABILITY = {"safe": "warning", "unsafe": "warning", "display-only": "note"}
_NO_RULE = {
    "MG000": "Nothing is to be done.",
    "MG002": "A module that the program imports could not be read.",
    "MG003": "A suppression that suppresses nothing.",
}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(conversions: Sequence[Conversion], errors: Sequence[SourceError] = ()) -> str:
    """The whole log: one run."""
    results = [result for conversion in conversions for result in _results(conversion)]
    distinct = list({json.dumps(result, sort_keys=True): result for result in results}.values())
    ids = sorted({result["ruleId"] for result in distinct})
    for result in distinct:
        result["ruleIndex"] = ids.index(result["ruleId"])
    run: dict[str, Any] = {
        "tool": {"driver": {"name": "mgmigrate", "version": version("mgmigrate"), "rules": [_rule(i) for i in ids]}},
        "columnKind": "utf16CodeUnits",
        "newlineSequences": ["\n"],
        "invocations": [
            {"executionSuccessful": not errors, "toolExecutionNotifications": [_notification(e) for e in errors]}
        ],
        "results": distinct,
    }
    document = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _rule(name: str) -> dict[str, Any]:
    rule = _rules().get(name)
    if rule is None:
        return {"id": name, "shortDescription": {"text": _NO_RULE.get(name, name)}}
    told = rule.document.strip() + (f"\n\nWhy it is not safe: {rule.why}" if rule.why else "")
    return {
        "id": name,
        "name": "".join(part.title() for part in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.summary},
        "help": {"text": told, "markdown": told},
        "defaultConfiguration": {"level": _APPLICABILITY[rule.applicability]},
        "properties": {"applicability": rule.applicability, "hazards": list(rule.hazards)},
    }


def _rules() -> dict[str, Rule]:
    return {rule.id: rule for rule in load_rules()}


def _results(conversion: Conversion) -> Iterator[dict[str, Any]]:
    sources = {change.path: change.source for change in conversion.changes if change.source is not None}
    fixes = _changes_by_fix(conversion)
    ids = {diagnostic: name for name, diagnostic in fix_ids(conversion).items()}
    for diagnostic in conversion.diagnostics:
        result: dict[str, Any] = {
            "ruleId": diagnostic.rule,
            "level": _LEVELS[diagnostic.level],
            "message": {"text": diagnostic.message},
            "locations": [_location(diagnostic, sources.get(diagnostic.at.path))],
        }
        name = ids.get(diagnostic)
        if name is not None:
            result["properties"] = {"id": name}
            if fixes.get(name):
                result["fixes"] = [{"description": {"text": diagnostic.message}, "artifactChanges": fixes[name]}]
        yield result


def _location(diagnostic: Diagnostic, source: Source | None) -> dict[str, Any]:
    at = diagnostic.at
    path, cell = file_and_cell(at.path)
    place: dict[str, Any] = {"artifactLocation": _artifact(path)}
    if cell:
        return {"physicalLocation": place, "logicalLocations": [{"name": cell}]}
    if source is not None and at.end > at.start:
        (first, left), (last, right) = (_position(source.text, offset) for offset in (at.start, at.end))
        place["region"] = {"startLine": first, "startColumn": left, "endLine": last, "endColumn": right}
    elif at.line:
        place["region"] = {"startLine": at.line}
    return {"physicalLocation": place}


def _position(text: str, offset: int) -> tuple[int, int]:
    """Line and column of a character."""
    start = text.rfind("\n", 0, offset) + 1
    return text.count("\n", 0, offset) + 1, _units(text[start:offset]) + 1


def _units(text: str) -> int:
    """The length of a text in UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _artifact(path: str) -> dict[str, str]:
    relative = os.path.relpath(path)
    if relative.startswith(".."):
        return {"uri": Path(os.path.abspath(path)).as_uri()}
    return {"uri": quote(Path(relative).as_posix())}


# -------------------------------------------------------------------- fixes
def _changes_by_fix(conversion: Conversion) -> dict[str, list[dict[str, Any]]]:
    """The changed blocks of lines by the fix that they belong to; a notebook's file has no lines to speak of."""
    of_label: dict[object, str] = {}
    for name, diagnostic in fix_ids(conversion).items():
        if diagnostic.fix is not None:
            of_label.setdefault((diagnostic.rule, diagnostic.fix.reason, diagnostic.at), name)
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for change in conversion.changes:
        if isinstance(change.source, Notebook):
            continue
        for labels, replacement in _replacements(change):
            owner = min((of_label[label] for label in labels if label in of_label), default=None)
            owner = owner or next(iter(found), None) or next(iter(of_label.values()))
            found.setdefault(owner, {}).setdefault(change.path, []).append(replacement)
    return {
        name: [{"artifactLocation": _artifact(path), "replacements": rows} for path, rows in files.items()]
        for name, files in found.items()
    }


def _replacements(change: FileChange) -> Iterator[tuple[set[object], dict[str, Any]]]:
    """Each changed block: the labels of its lines, and the replacement."""
    old, old_numbers = numbered_lines(change.before or "")
    new, new_numbers = numbered_lines(change.after)
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        labels: set[object] = set()
        for number in range(old_numbers[i1], old_numbers[i2]):
            labels |= change.labels_before.get(number, frozenset())
        for number in range(new_numbers[j1], new_numbers[j2]):
            labels |= change.labels_after.get(number, frozenset())
        row: dict[str, Any] = {"deletedRegion": _region(old, i1, i2)}
        if j2 > j1:
            row["insertedContent"] = {"text": "".join(new[j1:j2])}
        yield labels, row


def _region(lines: Sequence[str], first: int, end: int) -> dict[str, int]:
    """Whole lines from `first` to before `end` (positions from 0); nothing, before `first`, where they are equal."""
    left, right = _before(lines, first), _before(lines, end)
    return {"startLine": left[0], "startColumn": left[1], "endLine": right[0], "endColumn": right[1]}


def _before(lines: Sequence[str], position: int) -> tuple[int, int]:
    """Where the line at a position begins; behind the last one, where the file ends."""
    if position < len(lines) or not lines or lines[-1].endswith("\n"):
        return position + 1, 1
    return len(lines), _units(lines[-1]) + 1


def _notification(error: SourceError) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": _artifact(error.path)}
    if error.line:
        place["region"] = {"startLine": error.line, "startColumn": max(error.column, 1)}
    return {"level": "error", "message": {"text": error.message}, "locations": [{"physicalLocation": place}]}
