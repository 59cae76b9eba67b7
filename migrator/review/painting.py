"""Source text as HTML: coloured, and safe to show whatever it holds.

In: Python source text.  Out: for each of its lines a piece of markup.  Everything is escaped; what a reader could not see, or
what would move the text around it (control characters, direction marks, line separators, zero-width characters), is shown
by its number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from html import escape
from itertools import pairwise
from typing import Any

from markupsafe import Markup

# A token: the class of its colour (empty for plain) and its text.
Token = tuple[str, str]
LONGEST_LINE = 2000
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)


def shown(text: str) -> Markup:
    """Text for a page, with what cannot be seen shown by its number."""
    return Markup(_safe(text))


def _safe(text: str) -> str:
    """The same as plain text: a line has many pieces, and joining them as markup would escape each of them again."""
    escaped = escape(text)
    return _UNSEEN.sub(_number, escaped) if _UNSEEN.search(escaped) else escaped


def _number(match: re.Match[str]) -> str:
    return f'<span class="u">U+{ord(match[0]):04X}</span>'


def prose(text: str) -> Markup:
    """A phrase as a sentence: it begins with a capital letter, unless with what may be a name."""
    first = text.split(maxsplit=1)[0].replace("'", "") if text.strip() else ""
    return phrase(text[:1].upper() + text[1:] if first.isalpha() and first.islower() else text)


def phrase(text: str) -> Markup:
    """Text for a page in which flags, and what stands between backticks, are code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one backtick too many: it is part of the text
        parts = [text]
    return Markup(
        "".join(
            f"<code>{_safe(part)}</code>" if number % 2 else _FLAG.sub(r"<code class=flag>\g<0></code>", _safe(part))
            for number, part in enumerate(parts)
        )
    )


def paragraphs(text: str) -> list[Markup]:
    """The paragraphs of a document, one after the other, as sentences."""
    return [prose(" ".join(block.split())) for block in re.split(r"\n\s*\n", text.strip()) if block.strip()]


def paint(text: str) -> list[list[Token]]:
    """The tokens of each line (lines end with a line feed, as git counts them)."""
    lines: list[list[Token]] = [[]]
    for _, kind, value in _lexer().get_tokens_unprocessed(text):
        colour = _colour(kind)
        first, *rest = value.split("\n")
        if first:
            lines[-1].append((colour, first))
        for part in rest:
            lines.append([(colour, part)] if part else [])
    return lines


@lru_cache(maxsize=1)
def _lexer() -> Any:
    from pygments.lexers.python import PythonLexer

    return PythonLexer()


@lru_cache(maxsize=256)
def _colour(kind: Any) -> str:
    """One of nine classes: a page of code needs no more colours than a reader can tell apart."""
    name = str(kind)[6:]  # without "Token."
    for prefix, colour in _COLOURS:
        if name.startswith(prefix):
            return colour
    return ""


_COLOURS = (
    ("Comment", "c"),
    ("Literal.String.Doc", "c"),
    ("Literal.String", "s"),
    ("Literal.Number", "m"),
    ("Keyword.Constant", "m"),
    ("Keyword", "k"),
    ("Operator.Word", "k"),
    ("Name.Function", "f"),
    ("Name.Class", "f"),
    ("Name.Decorator", "d"),
    ("Name.Builtin", "b"),
    ("Name.Exception", "b"),
)


def line_html(tokens: Sequence[Token], marks: Sequence[tuple[int, int]] = ()) -> Markup:
    """One line; `marks` are the character ranges that changed, in order and apart from each other."""
    parts: list[str] = []
    for marked, piece in _pieces(tokens, marks):
        inner = "".join(
            f"<span class={colour}>{_safe(text)}</span>" if colour else _safe(text) for colour, text in piece
        )
        parts.append(f"<mark>{inner}</mark>" if marked else inner)
    return Markup("".join(parts))


def _pieces(tokens: Sequence[Token], marks: Sequence[tuple[int, int]]) -> Iterator[tuple[bool, list[Token]]]:
    """The tokens in runs that are marked or not, cut where a mark begins or ends."""
    length = sum(len(text) for _, text in tokens)
    if not marks and length <= LONGEST_LINE and not (tokens and tokens[-1][1].endswith("\r")):
        yield False, list(tokens)
        return
    ends_with_return = bool(tokens) and tokens[-1][1].endswith("\r")
    limit = min(length - ends_with_return, LONGEST_LINE)
    cuts = sorted({0, limit, *(min(place, limit) for mark in marks for place in mark)})
    for start, end in pairwise(cuts):
        marked = any(low <= start and end <= high for low, high in marks)
        yield marked, list(_between(tokens, start, end))
    if length - ends_with_return > LONGEST_LINE:
        yield False, [("c", f" … {length - LONGEST_LINE} more characters")]


def _between(tokens: Sequence[Token], start: int, end: int) -> Iterator[Token]:
    place = 0
    for colour, text in tokens:
        piece = text[max(start - place, 0) : max(end - place, 0)]
        if piece:
            yield colour, piece
        place += len(text)
