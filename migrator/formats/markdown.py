"""A comment for a pull request: what a person must decide, what was converted and why, how to start it, and the diff.

Names and texts of the program are data: none of them can become markup, a link or a mention.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from codemods.base import Diagnostic
from migrator.convert.conversion import Conversion
from migrator.formats import distinct_changes
from migrator.formats.diff import diff_parts, rule_names
from migrator.formats.summary import headline
from migrator.load.source import SourceError

_SPECIAL = re.compile(r"([\\*_\[\]#|~<>&!])")
_LONGEST = 50_000  # characters of a diff: GitHub takes 65,536 for a whole comment


def render(conversions: Sequence[Conversion], errors: Sequence[SourceError] = ()) -> str:
    """The whole comment."""
    parts = (
        [f"## mgmigrate: {headline(conversions, len(errors)).rstrip()}\n"] if len(conversions) != 1 or errors else []
    )
    for error in errors:
        parts.append(f"- {code(f'{error.path}:{error.line}' if error.line else error.path)}: {prose(error.message)}\n")
    for conversion in conversions:
        parts += _program(conversion)
    diff = "".join(text for _, change in distinct_changes(conversions) for _, text in diff_parts(change))
    if diff:
        parts += ["\n<details><summary>The diff</summary>\n", *_fenced("diff", _cut(diff)), "\n</details>\n"]
    return "".join(parts)


def _program(conversion: Conversion) -> Iterator[str]:
    levels: dict[str, list[Diagnostic]] = {"question": [], "fix": [], "note": []}
    for diagnostic in conversion.diagnostics:
        levels[diagnostic.level].append(diagnostic)
    yield f"\n## {code(conversion.entry)}\n"
    if levels["question"]:
        yield "\n### For you to decide\n\n"
        yield from (f"- {_row(diagnostic)}\n" for diagnostic in levels["question"])
    if levels["fix"]:
        yield "\n### Converted\n\n"
        yield from _converted(levels["fix"])
        yield (
            f"\nHow the batch is shared: {prose(conversion.way)} — {prose(conversion.reason)}\n"
            if conversion.way
            else ""
        )
    if levels["note"]:
        yield "\n### Worth knowing\n\n"
        yield from (f"- {_row(diagnostic)}\n" for diagnostic in levels["note"])
    if conversion.launch and conversion.changes:
        yield "\nStart it with\n"
        yield from _fenced("sh", f"{conversion.launch}\n")


def _converted(fixes: Sequence[Diagnostic]) -> Iterator[str]:
    """The fixes by rule and reason, with their places."""
    places: dict[tuple[str, str], list[str]] = {}
    for fix in fixes:
        places.setdefault((fix.rule, fix.message), []).append(code(f"{fix.at.path}:{fix.at.line}"))
    for (rule, message), where in places.items():
        yield f"- **{rule} {rule_names().get(rule, '')}** {', '.join(where)}: {prose(message)}\n"


def _row(diagnostic: Diagnostic) -> str:
    place = code(f"{diagnostic.at.path}:{diagnostic.at.line}")
    return f"{place} **{diagnostic.rule} {rule_names().get(diagnostic.rule, '')}**: {prose(diagnostic.message)}"


def code(text: str) -> str:
    """A text as code, whatever backticks are in it."""
    text = " ".join(text.split())
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    inside = f" {text} " if text.startswith("`") or text.endswith("`") else text
    return f"{fence}{inside}{fence}"


def prose(text: str) -> str:
    """A message: what stands between backticks stays code, and nothing else is markup."""
    parts = " ".join(text.split()).split("`")
    if len(parts) % 2 == 0:  # a backtick without a partner
        return _plain("`".join(parts)).replace("`", "\\`")
    return "".join(code(part) if number % 2 and part else _plain(part) for number, part in enumerate(parts))


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text).replace("@", "@\u200b").replace("://", ":\u200b//")


def _fenced(language: str, text: str) -> Iterator[str]:
    fence = "`" * max(3, max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    yield f"\n{fence}{language}\n{text}{fence}\n"


def _cut(diff: str) -> str:
    """As much of a diff as a comment takes, in whole lines."""
    if len(diff) <= _LONGEST:
        return diff
    kept = diff[:_LONGEST].rpartition("\n")[0] + "\n"
    return f"{kept}… and {diff.count(chr(10)) - kept.count(chr(10))} more lines: `mgmigrate convert` shows them\n"
