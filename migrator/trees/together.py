"""Convert programs that share modules so that every one of them is right afterwards.

In: conversions of several programs, each made as if it were alone.  Out: the same, where no file is changed in two ways; of the
others each is made anew on top of those before it, programs that train first, so that its diff is what it adds.  The diffs
apply one after the other.  Nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from codemods.options import Options
from migrator.convert.conversion import Conversion
from migrator.convert.pipeline import convert_program
from migrator.load.source import Source
from migrator.write.files import after_files


def convert_together(
    conversions: Sequence[Conversion], bases: Sequence[Path], options: Options
) -> tuple[list[Conversion], list[Path]]:
    """The conversions with their folders, in an order in which their diffs apply."""
    rows = list(zip(conversions, bases, strict=True))
    disputed = _disputed(conversions)
    shared = [row for row in rows if not disputed.isdisjoint(change.path for change in row[0].changes)]
    if not shared:
        return list(conversions), list(bases)
    overlay: dict[Path, Source] = {}
    done = []
    for conversion, base in sorted(shared, key=lambda row: row[0].way == "alone"):
        again = convert_program(Path(conversion.entry), options, overlay=overlay)
        overlay.update(after_files(again))
        done.append((again, base))
    rest = [row for row in rows if row not in shared]
    return [row[0] for row in (*rest, *done)], [row[1] for row in (*rest, *done)]


def _disputed(conversions: Sequence[Conversion]) -> set[str]:
    """Files that two programs want changed differently."""
    wanted: dict[str, str] = {}
    disputed = set()
    for change in (change for conversion in conversions for change in conversion.changes):
        if wanted.setdefault(change.path, change.after) != change.after:
            disputed.add(change.path)
    return disputed
