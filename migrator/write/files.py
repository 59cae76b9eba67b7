"""Put a conversion on disk: all files or none.

In: conversions and where to.  Out: changed files (see migrator.write.journal for how they become all or none).  Raises `WriteError`
with one clear line, and leaves nothing behind.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from codemods.options import Options
from migrator.convert.conversion import Conversion, FileChange
from migrator.convert.pipeline import convert_program
from migrator.load.project import project_root
from migrator.load.source import Source, SourceError, parse_tree
from migrator.write.journal import WriteError as WriteError
from migrator.write.journal import write_all


def encoded(change: FileChange) -> bytes:
    """The bytes of the new file, in the encoding of the old one."""
    if change.source is None:
        return change.after.encode()
    try:
        return change.source.encode(change.after)
    except UnicodeEncodeError as error:
        bad = change.after[error.start : error.end]
        raise WriteError(f"{change.path}: {bad!r} cannot be written in {change.source.encoding}") from error


def check_result(
    conversion: Conversion, options: Options, partial: bool = False, beside: Iterable[Conversion] = ()
) -> None:
    """Refuse a result that does not parse, or that a second run would change again (`partial`: where fixes were refused, it
    would offer them again).  `beside` are all conversions that are written together, in their order."""
    overlay = dict(after_files(conversion))
    for other in beside:
        overlay.update(after_files(other))
    for change in conversion.changes:
        if not change.path.endswith((".py", ".ipynb")):
            continue  # a launch line of a script
        try:
            parse_tree(Source(change.path, change.after))
        except SourceError as error:
            raise WriteError(
                f"{change.path}: the result does not parse ({error.message}, line {error.line})"
            ) from error
    if not conversion.changes or partial:
        return
    again = convert_program(Path(conversion.entry), options, overlay=overlay)
    if again.changes:
        names = ", ".join(sorted({d.rule for d in again.diagnostics if d.fix}))
        place = again.changes[0].path
        raise WriteError(f"{place}: a second run would change the result again ({names}); please report this")


def after_files(conversion: Conversion) -> Iterator[tuple[Path, Source]]:
    """The changed and new files of a conversion by absolute path, as a second run would read them."""
    for change in conversion.changes:
        old = change.source
        encoding, bom = (old.encoding, old.bom) if old is not None else ("utf-8", False)
        yield Path(change.path).resolve(), Source(change.path, change.after, encoding, bom)


def target_contents(conversions: list[Conversion], output: Path | None, bases: Sequence[Path]) -> dict[Path, bytes]:
    """What to write where: in place, or below `output` relative to the base of each conversion."""
    contents: dict[Path, bytes] = {}
    texts: dict[Path, str] = {}
    for conversion, base in zip(conversions, bases, strict=True):
        paths = [Path(os.path.abspath(change.path)) for change in conversion.changes]
        common = Path(os.path.commonpath([os.path.abspath(base), *(p.parent for p in paths)])) if paths else base
        for change, path in zip(conversion.changes, paths, strict=True):
            target = Path(change.path) if output is None else output / path.relative_to(common)
            data = encoded(change)
            if contents.get(target, data) != data and texts[target] != change.before:
                raise WriteError(f"{target}: two programs want it changed differently; convert them one at a time")
            contents[target], texts[target] = data, change.after  # the last of those that build on each other
    return contents


def dirty_files(paths: Iterable[Path]) -> list[str]:
    """What git says is not committed: changed files of the trees that hold the paths, and the paths themselves when git
    does not know them.  Empty where there is no git."""
    dirty: dict[str, None] = {}
    folders = dict.fromkeys(path.resolve().parent for path in paths)
    for folder in folders:
        top = _git(folder, "rev-parse", "--show-toplevel")
        if top is None:
            continue
        for line in (_git(Path(top.strip()), "status", "--porcelain", "--untracked-files=no") or "").splitlines():
            dirty[line[3:]] = None
        for path in paths:
            if path.resolve().parent == folder and path.exists():
                state = _git(folder, "status", "--porcelain", "--", path.name)
                if state:
                    dirty[os.path.relpath(path.resolve(), top.strip())] = None
    return list(dirty)


def _git(folder: Path, *words: str) -> str | None:
    """What git prints, or None when there is no git or no repository."""
    command = ["git", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def write_files(contents: Mapping[Path, bytes]) -> None:
    """Write all files or none; raises `WriteError`."""
    if contents:
        write_all(contents, _home(contents))


def _home(contents: Iterable[Path]) -> Path:
    """The folder of the journal: the project's, where the next run looks, or the nearest one above all files."""
    targets = [Path(os.path.realpath(name)) for name in contents]
    above = [next(p for p in target.parents if p.is_dir()) for target in targets]
    common = Path(os.path.commonpath(above))
    root = project_root(targets[0])
    return root if common.is_relative_to(root) and os.access(root, os.W_OK) else common
