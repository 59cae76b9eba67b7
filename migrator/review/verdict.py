"""What `verify --format json` said, for the page.

In: a file.  Out: a `Verdict`.  Raises `VerdictError` with one clear line for whatever is not such a file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_STATUSES = ("EQUAL", "DIFFERENT", "NOT VERIFIABLE")
SCHEMA = 1


class VerdictError(Exception):
    """The file holds no verdict; the message says why."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference: its kind, what it is, what may help, and the place that may have caused it."""

    kind: str
    text: str
    hint: str
    place: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """`told` says in one line what was checked; `source` is the file that it was read from."""

    status: str
    told: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    steps: int
    source: str

    def of(self, place: str) -> str:
        """What it says of the fix at a place ("file:line"), in a few words; empty when nothing was checked."""
        kinds = dict.fromkeys(finding.kind for finding in self.findings if finding.place == place)
        if kinds:
            return "may have caused a difference in " + ", ".join(kinds)
        return f"no difference in {self.steps} steps" if self.status == "EQUAL" else ""


def read_verdict(path: Path) -> Verdict:
    """Read a verdict."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise VerdictError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise VerdictError(f"{path}: is not JSON: {error}") from error
    status = document.get("status") if isinstance(document, dict) else None
    if status not in _STATUSES or document.get("schema") != SCHEMA:
        raise VerdictError(f"{path}: is no verdict of `mgmigrate verify --format json`")
    try:
        findings = tuple(
            Finding(str(one["kind"]), str(one["text"]), str(one["hint"]), str(one["place"]))
            for one in document["findings"]
        )
        return Verdict(
            status, _told(document), findings, tuple(map(str, document["notes"])), int(document["steps"]), str(path)
        )
    except (KeyError, TypeError, ValueError) as error:
        raise VerdictError(f"{path}: is no whole verdict of `mgmigrate verify --format json`: {error!r}") from error


def _told(document: Mapping[str, Any]) -> str:
    if document["status"] == "NOT VERIFIABLE":
        return str(document["reason"])
    how = "float64, free-running" if document["float64"] else "float32, resynchronised after each step"
    told = f"{document['steps']} optimizer steps compared on {document['devices']} simulated devices ({how})"
    return f"{told}, tolerance {document['tolerance']:g}" if document["status"] == "EQUAL" else told
