"""Accept or refuse fixes one by one.

In: a conversion, and what the user chose.  Out: which fixes are left out, each with the reason and with what does not hold
without it.  A fix is taken whole, over all its files; what depends on one that is refused is left out with it and said.

The id of a fix is `RULE@path:line`, with the path relative to the entry's folder, and `#2`, `#3`, … behind it where one
rule has several fixes on a line.  Raises `SelectionError`, whose message names the value and the remedy.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from codemods.base import INVARIANTS, Diagnostic, Invariant, Rule
from codemods.registry import load_rules
from migrator.convert.conversion import JOINS, WRAPS, Choice, Conversion
from migrator.edits import Inline

SCHEMA_VERSION = 1
WHOLE = "MG109"


class SelectionError(Exception):
    """A selection that does not fit; the message says what and what to do."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Ids of accepted and refused fixes of the program behind `entry`.

    None stands for all the others: without a list of accepted fixes all that are not refused are taken, and the other way
    round.  Where both are given, every fix has to be in one of them.
    """

    entry: str
    accept: tuple[str, ...] | None = None
    refuse: tuple[str, ...] | None = ()

    def dump(self) -> str:
        """The JSON form (docs/json.md)."""
        document: dict[str, Any] = {"version": SCHEMA_VERSION, "entry": self.entry}
        for name, ids in (("accept", self.accept), ("refuse", self.refuse)):
            if ids is not None:
                document[name] = list(ids)
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A fix that is left out: `cause` is the id of the refused fix that it depends on (empty: refused itself), `why` says
    what ties them; `breaks` are the invariants that do not hold without it."""

    cause: str
    why: str
    breaks: tuple[Invariant, ...]


def fix_ids(conversion: Conversion) -> dict[str, Diagnostic]:
    """The fixes of a conversion by id, in the order of its diagnostics."""
    return _ids_of(conversion.entry, conversion.diagnostics)


def _ids_of(entry: str, diagnostics: Iterable[Diagnostic]) -> dict[str, Diagnostic]:
    folder = os.path.dirname(os.path.abspath(entry))
    found: dict[str, Diagnostic] = {}
    for diagnostic in diagnostics:
        if diagnostic.fix is None:
            continue
        path = Path(os.path.relpath(os.path.abspath(diagnostic.at.path), folder)).as_posix()
        first = name = f"{diagnostic.rule}@{path}:{diagnostic.at.line}"
        number = 1
        while name in found:
            number += 1
            name = f"{first}#{number}"
        found[name] = diagnostic
    return found


def refusals(fixes: Mapping[str, Diagnostic], refused: Iterable[str]) -> dict[str, Refusal]:
    """All fixes that are left out where some are refused: those, and what depends on them.

    `fixes` comes from `fix_ids`; of the result, what breaks an invariant does so in the program that is left.
    """
    out: dict[str, tuple[str, str]] = {}
    wanted = set(refused)
    for name in sorted(filter(wanted.__contains__, fixes), key=lambda one: -len(_fallen(fixes, {one: ("", "")}))):
        if name not in out:  # else it goes with one that more depends on
            out = _fallen(fixes, {**out, name: ("", "")})
    started = any(d.rule in WRAPS and name not in out for name, d in fixes.items())
    one_process = not started and any(d.rule in WRAPS for d in fixes.values())
    found = {}
    for name, (cause, why) in out.items():
        rule, fix = _rules()[fixes[name].rule], fixes[name].fix
        # What goes with a refused fix was only there for its sake.
        harmless = bool(cause) or (one_process and rule.parallel) or (fix is not None and fix.optional)
        found[name] = Refusal(cause, why, () if harmless else rule.keeps)
    return {name: found[name] for name in fixes if name in found}


def _fallen(fixes: Mapping[str, Diagnostic], out: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """What is left out, and all that falls with it, each with its cause."""
    fallen = dict(out)
    wraps = [name for name, diagnostic in fixes.items() if diagnostic.rule in WRAPS]
    whole = any(diagnostic.rule == WHOLE for diagnostic in fixes.values())
    while True:
        lost = {name: fixes[name] for name in fixes if name in fallen}
        more = {name: tie for name in fixes if name not in fallen and (tie := _tie(fixes[name], lost, wraps, whole))}
        if not more:
            return fallen
        fallen |= more


@lru_cache(maxsize=1)
def _rules() -> dict[str, Rule]:
    return {rule.id: rule for rule in load_rules()}


def _tie(own: Diagnostic, lost: Mapping[str, Diagnostic], wraps: list[str], whole: bool) -> tuple[str, str] | None:
    """The left out fix on which this one depends, and why; None when it can stand without them."""
    rule = _rules()[own.rule]
    if lost and whole:
        return next(iter(lost)), "a program in DDP form takes the other form whole or not at all"
    for other, diagnostic in lost.items():
        if diagnostic.rule == rule.id and (rule.together or _stands_inside(own, diagnostic)):
            return other, "they are one change"
        if diagnostic.rule in rule.needs:
            return other, f"it builds on {_rules()[diagnostic.rule].name}"
    if not rule.parallel:
        return None
    joins = [other for other in lost if lost[other].rule in JOINS]
    if joins:
        return joins[0], "without it there is one process only"
    if wraps and all(other in lost for other in wraps):
        return wraps[0], "without a wrapped model several processes would each train their own"
    return None


def _stands_inside(own: Diagnostic, other: Diagnostic) -> bool:
    """True when the other fix takes away the `if` in which this one stands."""
    edits = other.fix.edits if other.fix is not None else ()
    return any(isinstance(edit, Inline) and edit.at.path == own.at.path and edit.at.contains(own.at) for edit in edits)


def chosen_ids(conversion: Conversion, selection: Selection) -> set[str]:
    """The ids that a selection refuses; raises `SelectionError` when it does not fit the conversion."""
    fixes = fix_ids(conversion)
    if os.path.basename(selection.entry) != os.path.basename(conversion.entry):
        raise SelectionError(f"the selection is for {selection.entry}, not for {conversion.entry}")
    named = [*(selection.accept or ()), *(selection.refuse or ())]
    for name in named:
        if name not in fixes:
            raise SelectionError(f"there is no fix {name}: {_hint(name, fixes)}")
    both = set(selection.accept or ()) & set(selection.refuse or ())
    if both:
        raise SelectionError(f"{min(both)} is both accepted and refused")
    if selection.refuse is None:
        return set(fixes) - set(selection.accept or ())
    missing = [name for name in fixes if name not in named] if selection.accept is not None else []
    if missing:
        raise SelectionError(
            f"{missing[0]} is neither accepted nor refused ({len(missing)} in all): the program or the options have"
            ' changed since; choose again, or leave out "accept" to take all that is not refused'
        )
    return set(selection.refuse)


def _hint(name: str, fixes: Mapping[str, Diagnostic]) -> str:
    near = difflib.get_close_matches(name, fixes, n=2, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(near)}? Ids go by line: where the program has changed since, choose again"
    return "`mgmigrate convert --format json` lists the ids of the fixes" if fixes else "nothing was converted"


def selected(choose: Callable[[Conversion], Iterable[str]]) -> Choice:
    """What `convert_program` takes as its `choose`: what is told in the place of each fix that is left out.

    `choose` gives the ids that are refused.  Where an invariant does not hold any more, a person has to see to it.
    """

    def replaced(conversion: Conversion) -> dict[Diagnostic, Diagnostic | None]:
        fixes = fix_ids(conversion)
        return {fixes[name]: _told(fixes[name], one) for name, one in refusals(fixes, choose(conversion)).items()}

    return replaced


def unselected(rules: Collection[str]) -> Choice:
    """What `--select` and `--ignore` leave out: all that these rules say, and what depends on their fixes.

    The user has decided, so that nothing is left to decide: what does not hold any more is worth knowing, no question.
    """

    def replaced(conversion: Conversion) -> dict[Diagnostic, Diagnostic | None]:
        out = [d for d in conversion.diagnostics if d.rule in rules]
        return _decided(fix_ids(conversion), out)

    return replaced


def suppressed(entry: str, diagnostics: Sequence[Diagnostic], out: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The diagnostics without those that comments in the program refuse, and without what depends on their fixes."""
    rows = {**_decided(_ids_of(entry, diagnostics), out), **dict.fromkeys(out)}  # a comment says that its writer knows
    return [row for d in diagnostics if (row := rows.get(d, d)) is not None]


def _decided(fixes: Mapping[str, Diagnostic], out: Sequence[Diagnostic]) -> dict[Diagnostic, Diagnostic | None]:
    """What is told, if anything, in the place of each diagnostic that the user left out, and of those that fall with it."""
    rows: dict[Diagnostic, Diagnostic | None] = dict.fromkeys(out)
    for name, one in refusals(fixes, [name for name, fix in fixes.items() if fix in rows]).items():
        if one.cause and fixes[name] not in rows:
            rows[fixes[name]] = _told(fixes[name], one)
        elif one.breaks:
            said = _told(fixes[name], one)
            message = said.message.replace("left out, as you chose", "left out by --select or --ignore", 1)
            rows[fixes[name]] = replace(said, message=message, level="note")
    return rows


def _told(fix: Diagnostic, refusal: Refusal) -> Diagnostic:
    message = f"left out with {refusal.cause} ({refusal.why})" if refusal.cause else "left out, as you chose"
    message += f": {fix.message}"
    if refusal.breaks:
        message += "; " + "; ".join(f"this breaks {told(name)}" for name in refusal.breaks)
    return replace(fix, message=message, level="question" if refusal.breaks else "note", fix=None)


def told(name: Invariant) -> str:
    """An invariant in words."""
    number, words = INVARIANTS[name]
    return f"promise {number}, {name} ({words})"


# -------------------------------------------------------------------- files
def save_selection(path: Path, selection: Selection) -> None:
    """Write a selection as JSON."""
    try:
        path.write_text(selection.dump(), encoding="utf-8")
    except OSError as error:
        raise SelectionError(f"{path}: cannot be written: {error.strerror or error}") from error


def load_selection(path: Path) -> Selection:
    """Read a selection; everything in the file must be understood."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SelectionError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise SelectionError(f"{path}: is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise SelectionError(f"{path}: holds no object")
    if document.get("version") != SCHEMA_VERSION:
        raise SelectionError(f"{path}: has version {document.get('version')!r}; this mgmigrate reads {SCHEMA_VERSION}")
    unknown = sorted(set(document) - {"version", "entry", "accept", "refuse"})
    if unknown:
        raise SelectionError(f"{path}: has a field {unknown[0]}; there are version, entry, accept and refuse")
    if not isinstance(document.get("entry"), str):
        raise SelectionError(f"{path}: does not say for which entry it is")
    accept, refuse = (_ids(path, document, name) for name in ("accept", "refuse"))
    if accept is None and refuse is None:
        raise SelectionError(f"{path}: neither accepts nor refuses anything")
    return Selection(document["entry"], accept, refuse)


def _ids(path: Path, document: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    rows = document.get(name)
    if rows is None:
        return None
    if not isinstance(rows, list) or not all(isinstance(row, str) for row in rows):
        raise SelectionError(f"{path}: {name} is not a list of ids")
    return tuple(rows)
