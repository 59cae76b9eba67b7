"""A source file in memory, of which no byte is lost.

A `Source` has the `text` that every later stage works on, and encodes a changed text back into the file's own encoding, newlines and
byte order mark.  Nothing here touches the disk.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from dataclasses import dataclass

# `.cuda(async=True)` stops every parser since Python 3.7.  The substitute has the same length, so that offsets hold.
_ASYNC_KEYWORD = re.compile(r"(?<=[(,\s])async(?=\s*=(?!=))")
_ASYNC_SUBSTITUTE = "asinc"
_MAX_LINES, _MAX_WORDS = 30_000, 150_000  # a word costs the parser up to a KiB
_WORD = re.compile(r"\w+")
_MAX_BYTES = 1 << 20
_MAX_NOTEBOOK = 64 << 20  # pictures are in it


class SourceError(Exception):
    """A file that cannot be converted; `line` and `column` (1-based) are 0 when the fault has no place."""

    def __init__(self, path: str, message: str, line: int = 0, column: int = 0):
        super().__init__(f"{path}:{line}:{column}: {message}" if line else f"{path}: {message}")
        self.path, self.message, self.line, self.column = path, message, line, column

    def alone(self) -> SourceError:
        """The same without the stack that it came from, which holds whole syntax trees."""
        return SourceError(self.path, self.message, self.line, self.column)

    def __reduce__(self) -> tuple[type[SourceError], tuple[str, str, int, int]]:
        return SourceError, (self.path, self.message, self.line, self.column)


@dataclass(frozen=True, slots=True)
class Source:
    """One file: `text` without byte order mark and with the file's own newlines."""

    path: str
    text: str
    encoding: str = "utf-8"
    bom: bool = False

    @property
    def parseable(self) -> str:
        """The text with Python 2 style `async=` keywords renamed (same length), so that today's parser accepts it."""
        return rename_async_keywords(self.text)

    def encode(self, text: str) -> bytes:
        """Bytes of a changed text in this file's encoding."""
        return (b"\xef\xbb\xbf" if self.bom else b"") + text.encode(self.encoding)


def rename_async_keywords(text: str) -> str:
    """Rename `async=` keyword arguments to a name of the same length; text in strings and comments stays."""
    if "async" not in text or not _ASYNC_KEYWORD.search(text):
        return text
    lines = list(io.StringIO(text, newline=""))
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text, newline="").readline))
    except (tokenize.TokenError, SyntaxError):
        return text  # the parser will say what is wrong, with a place
    for token, after in zip(reversed(tokens[:-1]), reversed(tokens[1:]), strict=True):
        if (
            token.string == "async"
            and after.string == "="
            and token.type in (tokenize.NAME, getattr(tokenize, "ASYNC", -1))
        ):
            row, column = token.start
            line = lines[row - 1]
            lines[row - 1] = line[:column] + _ASYNC_SUBSTITUTE + line[column + len("async") :]
    return "".join(lines)


def most_bytes(path: str) -> int:
    """The size from which on a file is not looked at."""
    return _MAX_NOTEBOOK if path.endswith(".ipynb") else _MAX_BYTES


def too_large(path: str) -> str:
    return f"is larger than {most_bytes(path) >> 20} MiB; it was not looked at"


def restore_async_keywords(text: str) -> str:
    """The text with the keywords that `rename_async_keywords` had renamed."""
    return re.sub(rf"\b{_ASYNC_SUBSTITUTE}(\s*=)", r"async\1", text) if _ASYNC_SUBSTITUTE in text else text


def parse_tree(source: Source) -> ast.Module:
    """Parse with the standard library; raise `SourceError` with line and column."""
    text = source.parseable
    if text.count("\n") > _MAX_LINES:
        raise SourceError(source.path, f"has more than {_MAX_LINES} lines; it was not looked at")
    if len(text) > _MAX_WORDS and sum(1 for _ in _WORD.finditer(text)) > _MAX_WORDS:
        raise SourceError(source.path, f"has more than {_MAX_WORDS} words; it was not looked at")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Python thinks of the user's escape sequences is not our matter
            return ast.parse(text)
    except SyntaxError as error:
        hint = _python2_hint(error)
        raise SourceError(
            source.path, f"cannot be parsed: {error.msg}{hint}", error.lineno or 0, error.offset or 0
        ) from error
    except (RecursionError, MemoryError) as error:
        raise SourceError(source.path, "is nested too deeply; it was not looked at") from error
    except ValueError as error:
        raise SourceError(source.path, f"cannot be parsed: {error}") from error


def _python2_hint(error: SyntaxError) -> str:
    message = error.msg or ""
    if "Missing parentheses in call to" in message or "multiple exception types must be parenthesized" in message:
        return " (Python 2; convert it with 2to3 first)"
    return ""
