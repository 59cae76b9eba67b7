"""Make edits by the text that they are about, apply them, and check what holds for every rewrite."""

import ast
import difflib

from migrator.edits import Guard, Labelled
from migrator.facts.python.syntax import Module, Span
from migrator.load.source import Source
from migrator.rewrite.apply import Rewritten, apply_edits


def module_of(text: str) -> Module:
    return Module(Source("m.py", text), "m")


def place(text: str, part: str, nth: int = 0) -> Span:
    """The place of the nth occurrence of a part of the text."""
    start = -1
    for _ in range(nth + 1):
        start = text.index(part, start + 1)
    line = text.count("\n", 0, start) + text.count("\r", 0, start) - text.count("\r\n", 0, start) + 1
    return Span("m.py", start, start + len(part), line)


def guard(text: str, *parts: str, test: str = "first") -> Guard:
    spans = tuple(place(text, part) for part in parts)
    return Guard(spans[0], spans, test)


def rewrite(text: str, *edits: object, rule: str = "MG999") -> str:
    """Apply edits of one rule and check the result: it parses, all changes are labelled, the rest is untouched."""
    return checked(text, apply_edits(text, [Labelled(edit, rule, "because") for edit in edits])).text  # type: ignore[arg-type]


def checked(text: str, result: Rewritten) -> Rewritten:
    ast.parse(result.text)
    check_labels(text, result.text, result.before, result.after)
    return result


def check_labels(before: str, after: str, labels_before: dict, labels_after: dict) -> None:
    """Every block of changed lines has a label of an edit that stands in it."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        found = [labels_before[n] for n in range(i1 + 1, i2 + 1) if n in labels_before]
        found += [labels_after[n] for n in range(j1 + 1, j2 + 1) if n in labels_after]
        assert found, f"no label for -{old[i1:i2]} +{new[j1:j2]}"
