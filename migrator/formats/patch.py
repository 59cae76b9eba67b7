"""The diff alone, as `git apply` takes it, each file in its own encoding.

A notebook is its file here, not its cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from migrator.convert.conversion import Conversion, FileChange
from migrator.formats import distinct_changes
from migrator.formats.diff import diff_bytes
from migrator.load.source import Source, SourceError
from migrator.notebooks.notebook import Notebook


def render(conversions: Sequence[Conversion], errors: Sequence[SourceError] = (), context: int = 3) -> bytes:
    """All changes of all programs."""
    return b"".join(diff_bytes(_as_file(change), context) for _, change in distinct_changes(conversions))


def _as_file(change: FileChange) -> FileChange:
    source = change.source
    if not isinstance(source, Notebook):
        return change
    after = source.encode(change.after).decode("utf-8-sig")
    plain = Source(source.path, source.raw, source.encoding, source.bom)
    return replace(change, before=source.raw, after=after, source=plain, labels_before={}, labels_after={})
