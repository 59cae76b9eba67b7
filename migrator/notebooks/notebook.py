"""Read a Jupyter notebook as one Python program, and write a changed program back into its cells.

In: the bytes of an .ipynb file.  Out: a `Notebook`, whose `text` is the code cells from top to bottom, each behind a line
that marks it, with magics and shell lines (`%`, `!`, `?`) replaced by statements that every parser accepts and no rule
touches.  `encode` puts a changed text back: only the source of changed cells differs in the file, byte for byte; outputs,
metadata and formatting stay.  Needs nothing but the standard library, and raises `SourceError`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from migrator.load.source import Source, SourceError, parse_tree

# Cell magics whose cell is Python that runs in the notebook itself.
_PYTHON_CELLS = frozenset({"time", "capture", "prun", "debug", "memit"})
# Line magics in front of a Python statement.
_PYTHON_LINES = frozenset({"time", "prun", "memit"})
_MARK = re.compile(r'^"mgmigrate cell (\d+)"$', re.MULTILINE)
_MAGIC = re.compile(
    r'^(?P<indent>[ \t]*)"""mgmigrate magic (?P<whole>\d+)\n*"""'
    r"|\b__mgmigrate_magic_(?P<value>\d+)__\(\)"
    r"|^(?P<before>[ \t]*)(?P<code>\S[^\n]*?)  # mgmigrate magic (?P<front>\d+)$",
    re.MULTILINE,
)
_ESCAPE = re.compile(r"[ \t]*(?:%%?[A-Za-z_(]|!|\?|[\w.*]+\?{1,2}[ \t]*$)")
_ASSIGNED = re.compile(r"(?P<target>[ \t]*[^=!<>%#'\"(]+?=[ \t]*)(?P<magic>[%!][^=].*)", re.DOTALL)
_FRONT = re.compile(
    r"(?P<indent>[ \t]*)%(?P<name>[A-Za-z_]+)(?P<rest>(?:[ \t]+-\w+)*[ \t]+)(?P<code>[^\s-].*)", re.DOTALL
)
_LEXEME = re.compile(r"\"\"\"|'''|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|#[^\n]*|[()\[\]{}]|\\\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Cell:
    """A code cell: its 1-based place among all cells, its text, and where its source stands in the file's text."""

    number: int
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Notebook(Source):
    """A notebook; `text` is its program, `raw` the file's own text, `magics` what stands for what in the program."""

    raw: str = ""
    cells: tuple[Cell, ...] = ()
    magics: tuple[str, ...] = ()

    def encode(self, text: str) -> bytes:
        """The file with the cells of a changed program."""
        parts, last = [], 0
        changed = dict(self.split(text))
        for cell in self.cells:
            after = changed.get(cell.number, "")
            if after != cell.text:
                parts += [self.raw[last : cell.start], self._source(cell, after)]
                last = cell.end
        parts.append(self.raw[last:])
        return (b"\xef\xbb\xbf" if self.bom else b"") + "".join(parts).encode()

    def split(self, text: str) -> Iterator[tuple[int, str]]:
        """The cells of a program, by number, as the notebook's user writes them."""
        old = {cell.number: cell.text for cell in self.cells}
        for number, part in split_cells(text):
            own, before = self.restored(part), old.get(number, "")
            yield number, before if own in (before, before.removesuffix("\n")) else own.strip("\n")

    def restored(self, text: str) -> str:
        """Text of the program with the magics that stood there."""

        def magic(match: re.Match[str]) -> str:
            if match["whole"] is not None:
                return match["indent"] + self.magics[int(match["whole"])].lstrip(" \t")
            if match["value"] is not None:
                return self.magics[int(match["value"])]
            return match["before"] + self.magics[int(match["front"])] + match["code"]

        return _MAGIC.sub(magic, text)

    def _source(self, cell: Cell, text: str) -> str:
        """The JSON of a cell's new text, laid out like the old one; lines that stay keep their spelling."""
        old = self.raw[cell.start : cell.end]
        plain = self.raw.isascii() and "\\u" in self.raw
        if old.startswith('"'):
            return json.dumps(text, ensure_ascii=plain)
        spelled = {value: old[start:end] for value, start, end in _items(old)}
        lines = re.findall(r"[^\n]*\n|[^\n]+", text)
        if not lines:
            return "[]"
        head, between, tail = self._layout(old)
        return head + between.join(spelled.get(line) or json.dumps(line, ensure_ascii=plain) for line in lines) + tail

    def _layout(self, old: str) -> tuple[str, str, str]:
        """What stands before, between and behind the lines of a source list."""
        for source in (old, *(self.raw[c.start : c.end] for c in self.cells)):
            spans = [(start, end) for _, start, end in _items(source)] if source.startswith("[") else []
            if spans:
                head, tail = source[: spans[0][0]], source[spans[-1][1] :]
                broken = "\n" in head
                between = source[spans[0][1] : spans[1][0]] if len(spans) > 1 else "," + (head[1:] if broken else " ")
                return head, between, tail
        return "[", ", ", "]"


def read_notebook(path: str, data: bytes) -> Notebook:
    """The notebook in a file's bytes."""
    bom = data.startswith(b"\xef\xbb\xbf")
    try:
        raw = data[3 if bom else 0 :].decode()
        spans = list(_code_cells(raw))
        document = json.loads(raw)
    except UnicodeDecodeError as error:
        raise SourceError(path, f"cannot be decoded: {error}") from error
    except (ValueError, IndexError, RecursionError) as error:
        raise SourceError(path, f"is not a notebook: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("cells"), list):
        old = isinstance(document, dict) and "worksheets" in document
        told = (
            "is a notebook of an old format; open it in Jupyter and save it"
            if old
            else "is not a notebook: it has no cells"
        )
        raise SourceError(path, told)
    language = _language(document)
    if language != "python":
        raise SourceError(path, f"is a notebook in {language}, not in Python")
    return _program(path, raw, bom, spans)


def _language(document: dict[str, object]) -> str:
    metadata = document.get("metadata")
    found: object = None
    if isinstance(metadata, dict):
        for group, name in (("language_info", "name"), ("kernelspec", "language")):
            inner = metadata.get(group)
            found = found or (inner.get(name) if isinstance(inner, dict) else None)
    return str(found or "python").lower().removeprefix("i").rstrip("23")


def _program(path: str, raw: str, bom: bool, spans: list[Cell]) -> Notebook:
    magics: list[str] = []
    parts: list[str] = []
    for cell in spans:
        text = _without_magics(cell, path, magics)
        parts.append(f'"mgmigrate cell {cell.number}"\n{text}' + ("" if text.endswith("\n") or not text else "\n"))
    return Notebook(path, "".join(parts), "utf-8", bom, raw, tuple(spans), tuple(magics))


# -------------------------------------------------------------------- cells of a program
def split_cells(text: str) -> Iterator[tuple[int, str]]:
    """The number and the text of each cell of a program, without the lines that mark them."""
    marks = list(_MARK.finditer(text))
    for mark, after in zip(marks, [*marks[1:], None], strict=True):
        part = text[mark.end() + 1 : after.start() if after is not None else len(text)]
        yield int(mark[1]), part.removesuffix("\n")


def place_in_cell(text: str, line: int) -> tuple[int, int]:
    """The cell of a line of the program, and the line in that cell (both 1-based; cell 0 before the first)."""
    number = first = 0
    for mark in _MARK.finditer(text):
        row = text.count("\n", 0, mark.start()) + 1
        if row > line:
            break
        number, first = int(mark[1]), row
    return number, max(line - first, 1)


# -------------------------------------------------------------------- JSON with places
def _code_cells(raw: str) -> Iterator[Cell]:
    """The code cells of a notebook's JSON, with the place of their source."""
    for key, start, _ in _members(raw, _skip(raw, 0)):
        if key == "cells" and raw[start] == "[":
            for number, (_, begin, _) in enumerate(_items(raw, start), 1):
                values = {name: (a, b) for name, a, b in _members(raw, begin)}
                kind = json.loads(raw[slice(*values.get("cell_type", (0, 0)))] or "null")
                if kind == "code" and "source" in values:
                    a, b = values["source"]
                    source = json.loads(raw[a:b])
                    yield Cell(number, source if isinstance(source, str) else "".join(source), a, b)


def _skip(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def _members(text: str, at: int) -> Iterator[tuple[str, int, int]]:
    """The members of an object: name, and start and end of the value."""
    if text[at] != "{":
        raise ValueError("an object is expected")
    at = _skip(text, at + 1)
    while text[at] != "}":
        name, at = json.JSONDecoder().raw_decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        at = json.JSONDecoder().raw_decode(text, start)[1]
        yield name, start, at
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)


def _items(text: str, at: int = 0) -> Iterator[tuple[object, int, int]]:
    """The items of a list: value, start and end."""
    at = _skip(text, at + 1)
    while text[at] != "]":
        start = at
        value, at = json.JSONDecoder().raw_decode(text, start)
        yield value, start, at
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)


# -------------------------------------------------------------------- magics
def _without_magics(cell: Cell, path: str, magics: list[str]) -> str:
    """A cell's text as Python; appends to `magics` what was taken out.  Raises `SourceError` where it is none."""
    name = f"{path}:cell {cell.number}"
    text = cell.text
    first = re.match(r"\s*%%(\w+)", text)
    if first is not None and first[1] not in _PYTHON_CELLS:
        return _hidden(text, "", magics)
    if not re.search(r"[%!?]", text) or _parses(text):
        parse_tree(Source(name, text))
        return text
    out: list[str] = []
    for statement in _logical_lines(text):
        out.append(_taken_out(statement, magics))
    python = "".join(out)
    parse_tree(Source(name, python))
    return python


def _parses(text: str) -> bool:
    try:
        parse_tree(Source("", text))
    except SourceError:
        return False
    return True


def _taken_out(statement: str, magics: list[str]) -> str:
    """A logical line with its magic replaced, or as it is."""
    front = _FRONT.fullmatch(statement.rstrip("\n"))
    end = "\n" if statement.endswith("\n") else ""
    if front is not None and front["name"] in _PYTHON_LINES and "\n" not in front["code"] and "#" not in front["code"]:
        magics.append(f"%{front['name']}{front['rest']}")
        return f"{front['indent']}{front['code'].rstrip()}  # mgmigrate magic {len(magics) - 1}{end}"
    if _ESCAPE.match(statement):
        indent = statement[: len(statement) - len(statement.lstrip(" \t"))]
        return _hidden(statement.removesuffix("\n"), indent, magics) + end
    assigned = _ASSIGNED.fullmatch(statement.removesuffix("\n"))
    if assigned is not None and "\n" not in assigned["magic"]:
        magics.append(assigned["magic"])
        return f"{assigned['target']}__mgmigrate_magic_{len(magics) - 1}__(){end}"
    return statement


def _hidden(text: str, indent: str, magics: list[str]) -> str:
    """A statement of as many lines that stands for text which is no Python."""
    magics.append(text)
    lines = "\n" * text.count("\n")
    return f'{indent}"""mgmigrate magic {len(magics) - 1}{lines}"""'


def _logical_lines(text: str) -> Iterator[str]:
    """Lines, joined where brackets, triple quotes or a backslash hold them together; a magic ends with its line."""
    lines = text.splitlines(keepends=True)
    row = 0
    while row < len(lines):
        start, depth, quote = row, 0, ""
        while True:
            line = lines[row]
            row += 1
            if row - 1 == start and _ESCAPE.match(line) and not line.rstrip("\n").endswith("\\"):
                break
            depth, quote = _open(line, depth, quote)
            if row >= len(lines) or not (depth or quote or line.rstrip("\n").endswith("\\")):
                break
        yield "".join(lines[start:row])


def _open(line: str, depth: int, quote: str) -> tuple[int, str]:
    """Open brackets and the open triple quote after a line."""
    at = 0
    while at < len(line):
        if quote:
            end = line.find(quote, at)
            if end < 0:
                return depth, quote
            at, quote = end + 3, ""
            continue
        match = _LEXEME.search(line, at)
        if match is None:
            break
        at = match.end()
        if match[0] in ('"""', "'''"):
            quote = match[0]
        elif match[0] in "([{":
            depth += 1
        elif match[0] in ")]}":
            depth = max(depth - 1, 0)
    return depth, quote
