"""Leave what no edit is about out of the parse: libcst's syntax trees cost far more than those of `ast`.

In: a module's text and the places of edits.  Out: a shorter text, in which each run of top-level statements without an edit
is one name, and what these names stand for.  Who generates code from the shorter text spells the names out again, so
offsets and lines stay those of the whole text.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import accumulate

_NAME = "_folded_statements_"
_LEAST_LINES = 3  # what is shorter costs as much as its name


@dataclass(frozen=True, slots=True)
class Folded:
    """`text` is what to parse, `kept` what the names in it stand for; `indent` is the first indentation of the whole text."""

    text: str
    kept: dict[str, str] = field(default_factory=dict)
    indent: str = ""


def fold(text: str, touched: Collection[int], tree: ast.Module | None = None) -> Folded:
    """Fold the statements that none of the touched offsets lies in; the text as it is where that is not safe to say."""
    if _NAME in text or text.count("\r") != text.count("\r\n"):
        return Folded(text)
    try:
        tree = tree or ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return Folded(text)  # the parse proper says what is wrong with it
    lines = text.splitlines(keepends=True) if text.isascii() and "\f" not in text else _lines(text)
    starts = [0, *accumulate(map(len, lines))]
    lines_touched = {bisect_right(starts, offset) - 1 for offset in touched}
    pieces: list[str] = []
    kept: dict[str, str] = {}
    done = 0
    for first, end in _runs(tree, lines, lines_touched):
        name = f"{_NAME}{len(kept)}"
        whole = text[starts[first] : starts[end]]
        ending = whole[len(whole.rstrip("\r\n")) :]
        kept[name] = whole.removesuffix(ending)
        pieces += [text[starts[done] : starts[first]], name, ending]
        done = end
    pieces.append(text[starts[done] :])
    return Folded("".join(pieces), kept, _first_indent(tree, lines))


def _lines(text: str) -> list[str]:
    """Lines as Python counts them, where `str.splitlines` knows more ends of lines."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + [parts[-1]] * bool(parts[-1])


def _runs(tree: ast.Module, lines: list[str], touched: set[int]) -> Iterator[tuple[int, int]]:
    """Runs of statements without an edit, as half-open ranges of 0-based lines."""
    run: tuple[int, int] | None = None
    for first, end in _statements(tree, lines):
        if any(first <= line < end for line in touched):
            if run is not None and run[1] - run[0] >= _LEAST_LINES:
                yield run
            run = None
        else:
            run = (run[0] if run is not None else first, end)
    if run is not None and run[1] - run[0] >= _LEAST_LINES:
        yield run


def _statements(tree: ast.Module, lines: list[str]) -> Iterator[tuple[int, int]]:
    """The lines of each top-level statement, with comments that are indented like its last block; `a; b` is one."""
    rows: list[tuple[int, int]] = []
    for node in tree.body:
        decorators = getattr(node, "decorator_list", ())
        first, end = min([node.lineno, *(one.lineno for one in decorators)]) - 1, node.end_lineno or node.lineno
        if rows and first < rows[-1][1]:
            first = rows.pop()[0]
        rows.append((first, end))
    for position, (first, end) in enumerate(rows):
        below = rows[position + 1][0] if position + 1 < len(rows) else len(lines)
        for number in range(end, below):
            if lines[number].strip() and not lines[number][0].isspace():
                break
            if lines[number].strip():
                end = number + 1
        yield first, end


def _first_indent(tree: ast.Module, lines: list[str]) -> str:
    """The indentation of the first block that begins on a line of its own, which libcst takes for the file's."""
    for node in tree.body:
        body = getattr(node, "body", None)
        if body and body[0].lineno > node.lineno:
            first = min([body[0].lineno, *(one.lineno for one in getattr(body[0], "decorator_list", ()))])
            line: str = lines[first - 1]
            return line[: len(line) - len(line.lstrip())]
    return ""
