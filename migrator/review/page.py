"""The review page: one HTML file that needs nothing else.

In: converted programs.  Out: text.  The page loads nothing: style and script stand in it, and its content policy names them by
their digests, so that nothing else in it can run, whatever the reviewed source holds.  Everything from outside goes through
the template's escaping or through `painting.shown`.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from codemods.base import Diagnostic, Rule
from codemods.options import Options
from codemods.registry import load_rules
from migrator.convert.conversion import WRAPS, Conversion
from migrator.convert.selection import fix_ids, refusals, told
from migrator.convert.sharing_out import shared
from migrator.facts.program import Program
from migrator.facts.python.syntax import Span
from migrator.formats.report import Report
from migrator.load.project import load_project
from migrator.notebooks.notebook import Notebook, place_in_cell
from migrator.review.changes import Changes, Fix, read_changes
from migrator.review.commands import check_commands, convert_command
from migrator.review.painting import line_html, paint, paragraphs, phrase, prose, shown
from migrator.review.understanding import Group, Seen, understand

_ASSETS = Path(__file__).parent / "assets"
_LONGEST_SEEN = 160
NOTHING = "MG000"  # says that there is nothing to do


@dataclass(frozen=True, slots=True)
class FixView:
    """A fix on the page.  `takes` are the fixes that fall with it, each with why; `breaks` what does not hold without it."""

    anchor: str
    fix: Fix
    place: str
    verdict: str
    takes: list[tuple[str, str]]
    breaks: list[str]


@dataclass(frozen=True, slots=True)
class RuleView:
    """A rule with its fixes."""

    rule: Rule
    fixes: list[FixView]


@dataclass(frozen=True, slots=True)
class PlaceView:
    """A question or a note, with the line that it is about; `rule` is None for what no rule says."""

    diagnostic: Diagnostic
    rule: Rule | None
    place: str
    line: int
    code: Markup


@dataclass(frozen=True, slots=True)
class ProgramView:
    """A program on the page; `told` is why there is nothing to do, `alone` runs it as one process."""

    anchor: str
    conversion: Conversion
    options: Options
    questions: list[PlaceView]
    notes: list[PlaceView]
    told: list[str]
    rules: list[RuleView]
    changes: Changes
    map: list[Group]
    is_notebook: bool
    from_ddp: bool
    alone: str
    command: str
    check: str
    check_choice: str
    wraps: list[str]
    wraps_take: list[tuple[str, str]]
    key: str

    @property
    def fixes(self) -> list[FixView]:
        return [view for rule in self.rules for view in rule.fixes]


def render_page(report: Report) -> str:
    """The page for some programs, which are read again for the map; a verdict is about the one program that there is."""
    programs = [_program(conversion, report, f"p{number}") for number, conversion in enumerate(report.conversions, 1)]
    style, script = (_asset(name) for name in ("page.css", "page.js"))
    named = {d.rule for conversion in report.conversions for d in conversion.diagnostics}
    return _template().render(
        programs=programs,
        errors=report.errors,
        verdict=report.verdict,
        rules=[rule for rule in load_rules() if rule.id in named],
        style=Markup(style),
        script=Markup(script),
        policy=f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; base-uri 'none'; form-action 'none'",
    )


def page_bytes(text: str) -> bytes:
    """The page in UTF-8; what cannot be encoded (file names that are no text) is replaced."""
    return text.encode("utf-8", "replace")


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@lru_cache(maxsize=1)
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FileSystemLoader(_ASSETS),
        bytecode_cache=_byte_code(),
    )
    environment.filters.update(
        shown=shown,
        phrase=phrase,
        prose=prose,
        paragraphs=paragraphs,
        seen=_seen,
        place=_place,
        json=_json,
        count=_count,
    )
    return environment.get_template("page.html")


def _byte_code() -> jinja2.BytecodeCache | None:
    """Where jinja2 keeps the compiled template, as Python does with modules; None where there is no such place."""
    try:
        return jinja2.FileSystemBytecodeCache()
    except RuntimeError:
        return None


def _json(value: Any) -> str:
    """For an attribute, which the template escapes."""
    return json.dumps(value, ensure_ascii=True)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _place(at: Span) -> str:
    return f"{at.path}:{at.line}"


def _seen(one: Seen) -> Markup:
    """The text of a place in one coloured line."""
    text = one.text if len(one.text) <= _LONGEST_SEEN else f"{one.text[:_LONGEST_SEEN].rstrip()} …"
    return line_html([token for line in paint(text) for token in line])


# -------------------------------------------------------------------- a program
def _program(conversion: Conversion, report: Report, anchor: str) -> ProgramView:
    options, verdict = report.options, report.verdict
    program = Program(load_project(Path(conversion.entry)))
    read = shared(program, options)[0] if program.wraps and program.trains else program
    changes = read_changes(conversion)
    known = {rule.id: rule for rule in load_rules()}
    diagnostics = fix_ids(conversion)
    wraps = [name for name, d in diagnostics.items() if d.rule in WRAPS]
    by_rule: dict[str, RuleView] = {}
    for number, fix in enumerate(sorted(changes.fixes, key=lambda fix: fix.diagnostic.rule), 1):
        found = by_rule.setdefault(fix.diagnostic.rule, RuleView(known[fix.diagnostic.rule], []))
        out = refusals(diagnostics, [fix.id])
        place = _place(fix.diagnostic.at)
        found.fixes.append(
            FixView(
                f"{anchor}-fix-{number}",
                fix,
                place,
                verdict.of(place) if verdict is not None else "",
                [(name, refusal.why) for name, refusal in out.items() if name != fix.id],
                [told(invariant) for invariant in out[fix.id].breaks],
            )
        )
    check, check_choice = check_commands(conversion.entry, options)
    every = refusals(diagnostics, wraps) if wraps else {}
    digest = hashlib.sha256(
        "\0".join([conversion.entry, *(c.after for c in conversion.changes)]).encode("utf-8", "replace")
    )
    return ProgramView(
        anchor=anchor,
        conversion=conversion,
        options=options,
        questions=list(_places(conversion, program, "question")),
        notes=[one for one in _places(conversion, program, "note") if one.diagnostic.rule != NOTHING],
        told=[d.message for d in conversion.diagnostics if d.rule == NOTHING],
        rules=list(by_rule.values()),
        changes=changes,
        map=[_told(group, program) for group in understand(read)],
        is_notebook=isinstance(program.entry_module.source, Notebook),
        from_ddp=not program.wraps and bool(program.existing_ddp),
        alone=f"python {program.project.command}",
        command=convert_command(conversion.entry, options),
        check=check,
        check_choice=check_choice,
        wraps=wraps,
        wraps_take=[(name, refusal.why) for name, refusal in every.items() if name not in wraps],
        key=digest.hexdigest()[:16],
    )


def _told(group: Group, program: Program) -> Group:
    """A group with the places of a notebook as cells and their lines."""
    seen = []
    for one in group.seen:
        source = program.module_at(one.at).source
        if isinstance(source, Notebook):
            cell, line = place_in_cell(source.text, one.at.line)
            one = replace(one, at=replace(one.at, path=f"{source.path}:cell {cell}", line=line))
        seen.append(one)
    return replace(group, seen=tuple(seen))


def _places(conversion: Conversion, program: Program, level: str) -> Iterator[PlaceView]:
    """Questions or notes, each with its line of the source where it has one."""
    known = {rule.id: rule for rule in load_rules()}
    sources = {module.path: module for module in program.modules}
    for diagnostic in conversion.diagnostics:
        if diagnostic.level != level:
            continue
        module = sources.get(diagnostic.at.path)
        has_line = module is not None and diagnostic.at.line > 0 and diagnostic.at.end > 0
        text = module.line_text(diagnostic.at.line).strip() if module is not None and has_line else ""
        code = line_html([token for line in paint(text) for token in line])
        place = _place(diagnostic.at) if diagnostic.at.line else diagnostic.at.path
        yield PlaceView(diagnostic, known.get(diagnostic.rule), place, diagnostic.at.line, code)
