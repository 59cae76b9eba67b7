"""Verify as the command line offers it: convert first where no converted program is given, then check.

In: what the user asked for.  Out: the verdict as text and JSON, the converter's questions, and the exit code.  Executes the
user's program, in child processes and copies (`migrator.verify`); the conversion itself executes nothing.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from codemods.base import Diagnostic
from codemods.options import Options
from migrator.convert.conversion import Conversion
from migrator.convert.modernise import modernise, refused_today
from migrator.convert.pipeline import convert_program
from migrator.formats.summary import question_rows
from migrator.load.source import SourceError
from migrator.policies import faithful
from migrator.verify import VerifyRequest, to_json, to_text, verify
from migrator.verify.settings import Progress
from migrator.verify.workspace import copy_project
from migrator.write.files import WriteError, check_result, encoded

# Which rules answer for what the check may find different.
_ANSWERING = {
    "wrap": ("MG30",),
    "random": ("MG504", "MG101"),
    "data": ("MG20", "MG302"),
    "order": ("MG20",),
    "rate": ("MG4", "MG20"),
    "evaluation": ("MG7",),
    "metric": ("MG7",),
    "files": ("MG5", "MG6"),
    "device": ("MG311", "MG312"),
}


class CheckError(Exception):
    """The check could not begin; the message says why."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The command line's values; `after` None: convert `before` first."""

    before: Path
    after: Path | None
    arguments: tuple[str, ...]
    devices: int
    steps: int | None
    float64: bool
    fake_data: int | None
    timeout: float
    keep: Path | None
    module: str | None
    prelude: Path | None
    as_faithful: bool
    target: Literal["ddp", "accelerate"] = "ddp"
    options: Options = field(default_factory=Options)


@dataclass(frozen=True, slots=True)
class Checked:
    """The verdict in both forms, the converter's questions as text, and the exit code."""

    text: str
    json: str
    questions: str
    exit_code: int


def check_program(wanted: Wanted, progress: Progress | None) -> Checked:
    """Convert where needed, and check.  Raises `CheckError`."""
    with _converted(wanted) as (after, conversion), _today(wanted) as today:
        request = VerifyRequest(
            before=today.before,
            cwd=today.cwd,
            root=today.root,
            after=after,
            arguments=wanted.arguments,
            module=wanted.module,
            devices=wanted.devices,
            steps=wanted.steps,
            float64=wanted.float64,
            fake_data=wanted.fake_data,
            timeout=wanted.timeout,
            keep=wanted.keep,
            prelude=_text(wanted.prelude),
            policies=conversion.policies if conversion is not None else (),
            places=_places(conversion.diagnostics) if conversion is not None else {},
            progress=progress,
        )
        try:
            verdict = verify(request)
        except (OSError, ValueError) as error:
            raise CheckError(str(error)) from error
    questions = [] if conversion is None else conversion.questions
    document = json.loads(to_json(verdict))
    document["questions"] = [
        {"rule": q.rule, "path": q.at.path, "line": q.at.line, "message": q.message} for q in questions
    ]
    code = max(verdict.exit_code, 3 if questions else 0)
    document["exit_code"] = code
    document["modernised"] = list(today.places)
    asked = "" if conversion is None else question_rows(conversion)
    return Checked(
        today.told + to_text(verdict), json.dumps(document, indent=2, ensure_ascii=False) + "\n", asked, code
    )


@dataclass(frozen=True, slots=True)
class _Today:
    """The original as today's torch can run it: itself, or a copy with what was respelled at `places`."""

    before: Path
    cwd: Path | None = None
    root: Path | None = None
    places: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        if not self.places:
            return ""
        return f"today's torch refuses the original; it was run with only this respelled: {', '.join(self.places)}\n"


@contextmanager
def _today(wanted: Wanted) -> Iterator[_Today]:
    """Respell what today's torch refuses in the original, in a copy of its folder; a program of today is left alone."""
    entry = wanted.before if wanted.module is None else _module_file(wanted.before, wanted.module)
    try:
        modern = modernise(entry)
    except SourceError as error:
        raise CheckError(str(error)) from error
    if not refused_today(modern):
        yield _Today(wanted.before)
        return
    root, here = _root(wanted), Path.cwd().resolve()
    folder = Path(tempfile.mkdtemp(prefix="mgmigrate-today-")).resolve()
    try:
        copy = folder / root.name
        copy_project(root, copy)
        for change in modern.changes:
            _put(copy, Path(change.path).resolve().relative_to(root), encoded(change))
        places = dict.fromkeys(f"{d.rule} {d.at.path}:{d.at.line}" for d in modern.diagnostics)
        cwd = copy / here.relative_to(root) if here.is_relative_to(root) else copy
        yield _Today(copy / wanted.before.resolve().relative_to(root), cwd, copy, tuple(places))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _converted(wanted: Wanted) -> Iterator[tuple[Path, Conversion | None]]:
    """The converted program, and its conversion where it was made here."""
    if wanted.after is not None:
        yield wanted.after, None
        return
    entry = wanted.before if wanted.module is None else _module_file(wanted.before, wanted.module)
    options = faithful(wanted.options) if wanted.as_faithful else wanted.options
    options = replace(options, target=wanted.target)
    try:
        conversion = convert_program(entry, options)
        check_result(conversion, options)
    except (SourceError, WriteError) as error:
        raise CheckError(str(error)) from error
    if not conversion.changes:
        told = "; ".join(d.message for d in conversion.diagnostics) or "nothing to convert"
        raise CheckError(f"{wanted.before}: there is nothing to check: {told}")
    root = _root(wanted)
    folder = Path(tempfile.mkdtemp(prefix="mgmigrate-")).resolve()
    try:
        copy = folder / root.name
        copy_project(root, copy)
        for change in conversion.changes:
            _put(copy, Path(change.path).resolve().relative_to(root), encoded(change))
        yield copy, conversion
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _root(wanted: Wanted) -> Path:
    """The folder that the check copies: the current one where the program lies in it, else the program's own."""
    entry, here = wanted.before.resolve(), Path.cwd().resolve()
    if entry == here or here in entry.parents:
        return here
    return entry if wanted.module is not None else entry.parent


def _put(copy: Path, name: Path, data: bytes) -> None:
    """Write a converted file into the copy, and never through a link into the user's own folder."""
    target = copy / name
    if not target.parent.resolve().is_relative_to(copy):
        raise CheckError(f"{name}: lies in a folder that is too large to copy")
    target.unlink(missing_ok=True)
    target.write_bytes(data)


def _module_file(folder: Path, module: str) -> Path:
    """The file that `python -m module` runs."""
    stem = folder.joinpath(*module.split("."))
    for path in (stem.with_name(stem.name + ".py"), stem / "__main__.py"):
        if path.is_file():
            return path
    raise CheckError(f"{folder}: holds no module {module}")


def _text(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckError(f"{path}: cannot be read: {error}") from error


def _places(diagnostics: tuple[Diagnostic, ...]) -> dict[str, str]:
    """For each kind of finding, where the converter changed what may have caused it."""
    places: dict[str, str] = {}
    for kind, prefixes in _ANSWERING.items():
        for diagnostic in diagnostics:
            if diagnostic.fix and diagnostic.rule.startswith(prefixes):
                places.setdefault(kind, f"{diagnostic.at.path}:{diagnostic.at.line}")
    return places
