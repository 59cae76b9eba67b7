"""Show conversions on the terminal: the diff on stdout, through a pager where a person reads it, the rest on stderr.

In: conversions and how the user wants to see them.  Out: text on both streams.  Used by the command line only.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from migrator.cli.console import has_colours, put, tell
from migrator.convert.conversion import Conversion
from migrator.load.source import SourceError

Colour = Literal["auto", "always", "never"]


@dataclass(frozen=True, slots=True)
class View:
    """How the user wants to see conversions; `form` is text, or the name of a form for other tools."""

    form: str = "text"
    context: int = 3
    colour: Colour = "auto"
    pager: bool = True
    quiet: bool = False


def show(conversions: Sequence[Conversion], errors: Sequence[SourceError], view: View, in_tree: bool) -> None:
    """Show what was converted and what was not."""
    if view.form != "text":
        put(_rendered(conversions, errors, view))
        if view.form != "patch":
            return
    for error in errors:
        tell(f"mgmigrate: {error}\n")
    if view.quiet:
        _tell_questions(conversions)
        return
    from migrator.formats.summary import headline, summary

    several = len(conversions) + len(errors) > 1
    if several:
        tell(headline(conversions, len(errors)))
    elif in_tree and not conversions and not errors:
        tell("nothing to do: no program here uses DataParallel\n")
    if view.form == "text" and not (view.pager and _paged(conversions, view)):
        for conversion, diff in _diffs(conversions, view):
            put(diff)
            if several and conversion is not None:
                tell(summary(conversion, several))
        if several:
            return
    for conversion in conversions:
        tell(summary(conversion, several))


def _rendered(conversions: Sequence[Conversion], errors: Sequence[SourceError], view: View) -> bytes:
    if view.form == "patch":
        from migrator.formats.patch import render as render_patch

        return render_patch(conversions, errors, view.context)
    from migrator.formats import render

    return render(view.form, conversions, errors)


def _tell_questions(conversions: Sequence[Conversion]) -> None:
    from migrator.formats.summary import question_rows

    for conversion in conversions:
        tell(question_rows(conversion))


def _diffs(conversions: Sequence[Conversion], view: View) -> list[tuple[Conversion | None, bytes]]:
    """The diffs in order; the last one of a conversion comes with it.  A module that programs share is shown once."""
    from migrator.formats.diff import diff_bytes, diff_coloured

    coloured = view.colour == "always" or (view.colour == "auto" and has_colours(sys.stdout))
    shown: set[tuple[str, str]] = set()
    rows: list[tuple[Conversion | None, bytes]] = []
    for conversion in conversions:
        for change in conversion.changes:
            if (change.path, change.after) not in shown:
                shown.add((change.path, change.after))
                if coloured:
                    rows.append((None, diff_coloured(change, view.context).encode("utf-8", "replace")))
                else:
                    rows.append((None, diff_bytes(change, view.context)))
        rows.append((conversion, b""))
    return rows


# -------------------------------------------------------------------- pager
def _paged(conversions: Sequence[Conversion], view: View) -> bool:
    """Show the diffs in the user's pager, as git does; False where there is none, or nobody to read it."""
    words = pager_words(os.environ)
    if not words or not sys.stdout.isatty() or not any(conversion.changes for conversion in conversions):
        return False
    environment = {"LESS": "FRX", "LV": "-c", **os.environ}
    sys.stdout.flush()
    try:
        pager = subprocess.Popen(words, stdin=subprocess.PIPE, env=environment)
    except OSError:
        return False
    data = b"".join(diff for _, diff in _diffs(conversions, view))
    while True:
        try:
            pager.communicate(data)
            return True
        except KeyboardInterrupt:  # the pager's own business
            continue


def pager_words(environment: os._Environ[str] | dict[str, str]) -> list[str]:
    """The pager's command; empty where the user wants none."""
    wanted = environment.get("MGMIGRATE_PAGER", environment.get("PAGER", "less"))
    words = shlex.split(wanted)
    return [] if words in ([], ["cat"]) or environment.get("TERM") == "dumb" else words


# -------------------------------------------------------------------- figures
def stats_line(conversions: Sequence[Conversion], errors: Sequence[SourceError], seconds: float) -> str:
    """One line with the figures of a run."""
    from migrator.formats.diff import numbered_lines

    levels = [diagnostic.level for conversion in conversions for diagnostic in conversion.diagnostics]
    files = {(change.path, change.after): change for conversion in conversions for change in conversion.changes}
    added = removed = 0
    for change in files.values():
        import difflib

        old, new = numbered_lines(change.before or "")[0], numbered_lines(change.after)[0]
        for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            added, removed = added + (j2 - j1) * (tag != "equal"), removed + (i2 - i1) * (tag != "equal")
    told = [
        f"programs {len(conversions)}",
        f"unreadable {len(errors)}",
        f"fixes {levels.count('fix')}",
        f"questions {levels.count('question')}",
        f"notes {levels.count('note')}",
        f"files {len(files)}",
        f"lines +{added} -{removed}",
        f"seconds {seconds:.2f}",
    ]
    return f"stats: {', '.join(told)}\n"
