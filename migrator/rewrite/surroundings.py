"""Comments and blank lines around statements that come, go or move.

In: statements, or the lines above them.  Out: those that stay, and where.  Nothing is mutated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import libcst as cst

from migrator.edits import Inline
from migrator.rewrite.conflicts import EditConflict

_HEADING = re.compile(r"[-=#*~_/]{3}")


def blank_lines(node: cst.CSTNode) -> Iterator[cst.EmptyLine]:
    stack = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, cst.EmptyLine) and current.comment is None and not current.whitespace.value:
            yield current
        stack.extend(current.children)


def split_leading(lines: Sequence[cst.EmptyLine]) -> tuple[list[cst.EmptyLine], list[cst.EmptyLine]]:
    """Blank lines before the first comment, and the rest."""
    count = next((i for i, line in enumerate(lines) if line.comment is not None), len(lines))
    return list(lines[:count]), list(lines[count:])


def from_first_comment(lines: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """The lines when there is a comment among them; blank lines alone go with their statement."""
    return list(lines) if any(line.comment is not None for line in lines) else []


def starts_paragraph(statement: Any) -> bool:
    lines = statement.leading_lines
    return bool(lines) and lines[0].comment is None


def without_last_comment(lines: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """Lines without the comment at their end: it was about the statement below, the last of its paragraph, which is gone.

    A rule of dashes or the like is a heading, and stays.
    """
    kept = list(lines)
    while kept and kept[-1].comment is not None:
        if _HEADING.search(kept.pop().comment.value):  # type: ignore[union-attr]
            return list(lines)
    if not kept:  # no blank line above it
        return list(lines)
    while kept and kept[-1].comment is None:
        kept.pop()
    return kept


def branch(node: cst.CSTNode, edit: Inline, rule: str) -> tuple[list[Any], list[cst.EmptyLine]]:
    """The statements of one branch of an `if`, and the comments behind them."""
    if not isinstance(node, cst.If):
        raise EditConflict(edit.at, [rule], "only an `if` can be replaced by one of its branches")
    branch: cst.BaseSuite = node.body
    leading = list(node.leading_lines)
    if edit.orelse:
        if not isinstance(node.orelse, cst.Else):
            raise EditConflict(edit.at, [rule], "the `if` has no plain else branch")
        branch = node.orelse.body
    if isinstance(branch, cst.SimpleStatementSuite):
        line = cst.SimpleStatementLine(branch.body, leading, trailing_whitespace=branch.trailing_whitespace)
        return [line], []
    body: list[Any] = list(branch.body)
    body[0] = body[0].with_changes(leading_lines=[*leading, *body[0].leading_lines])
    return body, from_first_comment(branch.footer)  # type: ignore[attr-defined]
