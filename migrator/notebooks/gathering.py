"""Gather what every process of a notebook runs in one function, and launch it.

In: a converted notebook's program, in which the statements between joining the processes and leaving them stand at the top
level.  Out: the program with these statements in a function, in the cell of the last one.  Definitions, imports, marks and
magics stay where they are.
"""

from __future__ import annotations

import ast
import io
import re
import symtable
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from migrator.convert.conversion import FileChange
from migrator.edits import Label
from migrator.facts.python.nodes import called_name
from migrator.facts.region import bound, reads, stays

_STARTS, _ENDS = ("setup_distributed", "Accelerator"), ("destroy_process_group", "end_training")
_MOVED = "# moved into {0}(), below\n"
_TIMED = re.compile(r"  # mgmigrate magic \d+$", re.MULTILINE)
_Line = tuple[str, frozenset[Label]]


@dataclass(frozen=True, slots=True)
class _Block:
    """Statements that share lines, with the comments above them: 0-based `[start, end)`."""

    start: int
    end: int
    statements: tuple[ast.stmt, ...]


def gather(
    change: FileChange, name: str, launch: str, choices: Sequence[str], shown: Sequence[str], label: Label
) -> FileChange:
    """The change with a function `name` that holds what the processes run, and the call `launch` behind it.

    `choices` are texts of statements above that go along, `shown` of statements that do not.
    """
    text = change.after
    tree = ast.parse(text)
    lines = text.splitlines(keepends=True)
    rows: list[_Line] = [(line, change.labels_after.get(n, frozenset())) for n, line in enumerate(lines, 1)]
    blocks = list(_blocks(tree, lines))
    first = next(i for i, block in enumerate(blocks) if any(_calls(s, _STARTS) for s in block.statements))
    last = max(i for i, block in enumerate(blocks) if any(_calls(s, _ENDS) for s in block.statements))
    moved = _moved(blocks, first, last, {s for s in tree.body if ast.get_source_segment(text, s) in shown})
    early = [i for i in range(first) if any(ast.get_source_segment(text, s) in choices for s in blocks[i].statements)]
    own = {s for i in moved for s in blocks[i].statements}
    mine = frozenset({label})
    body: list[_Line] = []
    quoted = _inside_strings(text)
    for index in [first, *(i for i in early), *(i for i in moved if i != first)]:
        block = blocks[index]
        gap = rows[block.start - 1 : block.start] if body and block.start and not lines[block.start - 1].strip() else []
        body += [(line, labels | mine) for line, labels in gap]
        for number in range(block.start, block.end):
            line, labels = rows[number]
            line = _TIMED.sub("", line)  # in a function, `%time x = f()` would not bind x
            shown = line if number in quoted or not line.strip() else "    " + line
            body.append((shown.rstrip("\r\n") + "\n", labels | mine))
    shared = _shared(tree, text, own | {s for i in early for s in blocks[i].statements})
    head = [f"def {name}():\n", *([f"    global {', '.join(shared)}\n"] if shared else [])]
    function: list[_Line] = (
        [(line, mine) for line in head] + body + [(line, mine) for line in ("\n", "\n", launch + "\n")]
    )
    out = _put(rows, blocks, {*early, *moved}, last, function, name, mine)
    after = "".join(line for line, _ in out)
    before = {**change.labels_before}
    for number in range(1, (change.before or "").count("\n") + 2):
        before.setdefault(number, mine)
    told = {number: found for number, (_, found) in enumerate(out, 1) if found}
    return replace(change, after=after, labels_before=before, labels_after=told)


def _moved(blocks: Sequence[_Block], first: int, last: int, shown: set[ast.stmt]) -> list[int]:
    """Blocks that go into the function: all that act, and definitions that are made of what these bind."""
    moved: list[int] = []
    made: set[str] = set()
    for index in range(first, last + 1):
        statements = blocks[index].statements
        if not all(stays(s) or s in shown for s in statements) or any(_now(s) & made for s in statements):
            moved.append(index)
            made |= {name for s in statements for name in bound(s)}
    return moved


def _now(statement: ast.stmt) -> set[str]:
    """Names that a definition reads while it is made: decorators, defaults, bases and what a class body runs."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        parts: list[ast.AST] = [*statement.decorator_list, *statement.args.defaults]
        parts += [d for d in statement.args.kw_defaults if d is not None]
    elif isinstance(statement, ast.ClassDef):
        inner = [s for s in statement.body if not isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef)]
        parts = [*statement.decorator_list, *statement.bases, *statement.keywords, *inner]
        return set().union(*(_now(s) for s in statement.body), *(_names(p) for p in parts))
    else:
        return set()
    return set().union(*(_names(part) for part in parts)) if parts else set()


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _blocks(tree: ast.Module, lines: Sequence[str]) -> Iterator[_Block]:
    end = 0
    pending: list[ast.stmt] = []
    for statement, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        pending.append(statement)
        if after is not None and after.lineno == statement.end_lineno:
            continue  # `a; b`
        start = min([pending[0].lineno, *(d.lineno for d in getattr(pending[0], "decorator_list", []))]) - 1
        while start > end and lines[start - 1].lstrip().startswith("#"):
            start -= 1
        end = statement.end_lineno or statement.lineno
        yield _Block(start, end, tuple(pending))
        pending = []


def _calls(statement: ast.stmt, names: tuple[str, ...]) -> bool:
    value = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
    if not isinstance(value, ast.Call):
        return False
    return called_name(value).startswith(names)


def _shared(tree: ast.Module, text: str, own: set[ast.stmt]) -> list[str]:
    """Names that the function binds for others: what stays reads them, or binds them too."""
    made = set().union(*(bound(s) for s in own)) if own else set()
    others = [s for s in tree.body if s not in own]
    used = set().union(
        *(bound(s) | reads(s) for s in others if not isinstance(s, ast.FunctionDef | ast.ClassDef)), set()
    )
    used |= {s.name for s in others if isinstance(s, ast.FunctionDef | ast.ClassDef)}
    lines = {s.lineno for s in others}
    for table in symtable.symtable(text, "notebook", "exec").get_children():
        if table.get_lineno() in lines or any(s.lineno <= table.get_lineno() <= (s.end_lineno or 0) for s in others):
            used |= _globals(table)
    return sorted(made & used)


def _globals(table: symtable.SymbolTable) -> set[str]:
    """Names that a function, or one inside it, takes from the module."""
    found = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
    return found.union(*(_globals(child) for child in table.get_children()))


def _inside_strings(text: str) -> set[int]:
    """0-based numbers of lines that begin inside a string: they are not indented."""
    inside: set[int] = set()
    start = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        kind = tokenize.tok_name[token.type]
        if kind == "STRING":
            inside.update(range(token.start[0], token.end[0]))
        elif kind == "FSTRING_START":
            start = token.start[0]
        elif kind == "FSTRING_END":
            inside.update(range(start, token.end[0]))
    return inside


def _put(
    rows: Sequence[_Line],
    blocks: Sequence[_Block],
    moved: set[int],
    last: int,
    function: Sequence[_Line],
    name: str,
    mine: frozenset[Label],
) -> list[_Line]:
    """The lines with the function in the place of the last block that moved; emptied cells say where their code is."""
    out: list[_Line] = []
    at = 0
    for index, block in enumerate(blocks):
        kept = list(rows[at : block.start])
        at = block.end
        if index not in moved:
            out += [*kept, *rows[block.start : block.end]]
            continue
        while kept and not kept[-1][0].strip():
            kept.pop()
        out += kept
        if index == last:
            gap = 0 if out and out[-1][0].startswith(('"mgmigrate cell ', '"""mgmigrate magic ')) else 2
            while out and gap and not out[-1][0].strip():
                out.pop()
            out += [("\n", mine)] * gap + list(function)
        elif out and _is_mark(out[-1][0]) and _ends_cell(blocks, index, moved - {last}):
            out.append((_MOVED.format(name), mine))
    return [*out, *rows[at:]]


def _is_mark(line: str) -> bool:
    return line.startswith('"mgmigrate cell ')


def _ends_cell(blocks: Sequence[_Block], index: int, moved: set[int]) -> bool:
    """True when nothing of the cell is left behind a moved block."""
    for following in range(index + 1, len(blocks)):
        value = getattr(blocks[following].statements[0], "value", None)
        if isinstance(value, ast.Constant) and str(value.value).startswith("mgmigrate cell "):
            return True
        if following not in moved:
            return False
    return True
