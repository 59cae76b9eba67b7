"""Apply planned edits to one module in one libcst pass, and remember which rule made which line.

In: a module's text and labelled edits.  Out: the new text, and for every changed line the rules behind it.  Statements that
no edit names come out byte for byte; no formatter runs.  Raises `EditConflict` when two edits claim one place, or when a
place cannot be found: an edit is applied or reported, never dropped.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst

from migrator.anchors import PARENTHESISED, Anchors, Lines
from migrator.edits import (
    STATEMENT_EDITS,
    AddParameter,
    DropArgument,
    Guard,
    Inline,
    InsertAfter,
    InsertBefore,
    Label,
    Labelled,
    Remove,
    Replace,
    SetArgument,
)
from migrator.expressions import add_parameter, drop_argument, fill, fitted, set_argument, with_holes, with_placeholders
from migrator.facts.syntax import Span
from migrator.source import SourceError

_HEADING = re.compile(r"[-=#*~_/]{3}")
Block = cst.Module | cst.IndentedBlock | cst.SimpleStatementSuite


class EditConflict(Exception):
    """An edit that cannot be made: two want the same place, or its place cannot be found; `rules` are their ids."""

    def __init__(self, at: Span, rules: Sequence[str], reason: str = ""):
        self.at, self.rules = at, tuple(dict.fromkeys(rules))
        self.reason = reason or f"{' and '.join(self.rules)} both want to change this place"
        super().__init__(f"{at.path}:{at.line}: {self.reason}")


@dataclass(frozen=True, slots=True)
class Rewritten:
    """New text of a module; `before` and `after` map 1-based line numbers to the labels of the edits there."""

    text: str
    before: dict[int, frozenset[Label]]
    after: dict[int, frozenset[Label]]


@dataclass(slots=True)
class _Row:
    """A statement of a block on its way: the original, the updated one, the edits on it, and the guard that it goes under."""

    old: cst.CSTNode
    new: Any
    edits: list[Labelled]
    guard: Labelled | None = None


class _Rewriter(cst.CSTTransformer):
    def __init__(
        self,
        module: cst.Module,
        expressions: dict[int, list[Labelled]],
        statements: dict[int, list[Labelled]],
        guards: dict[int, Labelled],
        holes: dict[tuple[int, int], cst.CSTNode],
        on_path: set[int],
    ):
        super().__init__()
        self.module, self.expressions, self.statements, self.guards = module, expressions, statements, guards
        self.holes, self.on_path = holes, on_path
        self.hole_ids = {id(node) for node in holes.values()}
        self.updated: dict[int, cst.CSTNode] = {}
        self.unreplaced: dict[
            int, cst.CSTNode
        ] = {}  # holes with what changed inside, before they were replaced themselves
        self.made: list[tuple[Labelled, cst.CSTNode]] = []
        self.parents: list[cst.CSTNode] = []
        self.applied: set[Labelled] = set()
        self.split: set[Labelled] = set()
        self.bare: set[int] = set()

    # ------------------------------------------------------------ traversal
    def on_visit(self, node: cst.CSTNode) -> bool:
        self.parents.append(node)
        return id(node) in self.on_path

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> Any:
        self.parents.pop()
        node = updated_node
        edits = self.expressions.get(id(original_node), ())
        for labelled in sorted(edits, key=lambda one: isinstance(one.edit, Replace)):
            if id(original_node) in self.hole_ids:
                self.updated[id(original_node)] = node  # a replacement around itself keeps what changed inside
                if isinstance(labelled.edit, Replace):
                    self.unreplaced.setdefault(id(original_node), node)
            node = self._expression(labelled, node)
            self.made.append((labelled, node))
            self.applied.add(labelled)
        if isinstance(original_node, cst.Module | cst.IndentedBlock | cst.SimpleStatementSuite):
            node = self._block(original_node, node)  # type: ignore[arg-type]
        if id(original_node) in self.hole_ids:
            self.updated[id(original_node)] = node
        return node

    # ------------------------------------------------------------ expressions
    def _expression(self, labelled: Labelled, node: cst.CSTNode) -> cst.CSTNode:
        edit = labelled.edit
        if isinstance(edit, Replace):
            new = self._filled(edit.text, edit.holes)
            assert isinstance(node, cst.BaseExpression)
            own = 1 if isinstance(node, PARENTHESISED) and node.lpar else 0
            if len(node.lpar) > own and not new.lpar:
                return new.with_changes(lpar=node.lpar[own:], rpar=node.rpar[own:])
            return fitted(new, self.parents[-1], self.module.code_for_node(new))
        if not isinstance(node, cst.Call):
            raise EditConflict(edit.at, [labelled.rule], "an argument can only be changed in a call")
        if isinstance(edit, SetArgument):
            value = fitted(self._filled(edit.text, edit.holes), cst.Arg(cst.Name("x")))
            return set_argument(node, edit.name, edit.position, value, edit.rename)
        assert isinstance(edit, DropArgument)
        return drop_argument(node, edit.name, edit.position)

    def _filled(self, text: str, holes: Sequence[Span]) -> cst.BaseExpression:
        nodes: dict[int, cst.BaseExpression] = {}
        for index, span in enumerate(holes):
            node = self.holes[span.start, span.end]
            nodes[index] = self.updated.get(id(node), node)  # type: ignore[assignment]
        return fill(text, nodes, self.module.config_for_parsing)

    # ------------------------------------------------------------ statements
    def _block(self, original: Block, updated: Block) -> Block:
        rows, split = self._rows(original, updated)
        if not any(row.edits or row.guard for row in rows):
            return updated
        body: list[Any] = []
        orphans: list[cst.EmptyLine] = []
        pending: list[Any] = []
        behind: list[Any] = []
        guard: Labelled | None = None
        removed = False

        def close() -> None:
            """End the open guard; what its last statement asked for behind itself comes behind the guard."""
            nonlocal guard
            if guard is not None and pending:
                body.append(self._guarded(guard, pending))
            body.extend(behind)
            pending.clear()
            behind.clear()
            guard = None

        for row in rows:
            if row.guard is not guard:
                close()
            starts, guard = row.guard is not None and guard is None, row.guard
            new = row.new
            if removed and _starts_paragraph(new):
                orphans = _without_last_comment(orphans)
            if orphans:
                new = new.with_changes(leading_lines=[*orphans, *new.leading_lines])
            before, inner, after, orphans = self._around(row.edits, new)
            removed = any(isinstance(labelled.edit, Remove) for labelled in row.edits)
            pending.extend(behind)
            behind.clear()
            (body if starts or guard is None else pending).extend(before)
            (body if guard is None else pending).extend(inner)
            (body if guard is None else behind).extend(after)
        close()
        if not body and not isinstance(updated, cst.Module):
            body = [cst.parse_statement("pass", config=self.module.config_for_parsing)]
            self.made += [(labelled, body[0]) for row in rows for labelled in row.edits]
        if isinstance(updated, cst.SimpleStatementSuite):
            updated = cst.IndentedBlock(body=[], header=updated.trailing_whitespace)
        orphans = _without_last_comment(orphans) if removed else orphans
        if orphans:
            updated = updated.with_changes(footer=[*orphans, *updated.footer])
        block = updated.with_changes(body=body)
        for labelled in split:
            self.split.add(labelled)
            self.made += [(labelled, block)] if isinstance(original, cst.SimpleStatementSuite) else []
        return block

    def _rows(self, original: Block, updated: Block) -> tuple[list[_Row], list[Labelled]]:
        """The statements of a block; `a; b` is taken apart where an edit is about one of its parts.

        Comes with the edits that took a line apart, whose label the whole line then carries.
        """
        rows: list[_Row] = []
        split: list[Labelled] = []
        if isinstance(original, cst.SimpleStatementSuite):
            parts = [self._row(small, small) for small in original.body]
            touching = [one for row in parts for one in (*row.edits, row.guard) if one is not None]
            assert isinstance(updated, cst.SimpleStatementSuite)
            for row, part in zip(parts, updated.body, strict=True):
                row.new = cst.SimpleStatementLine(body=[part.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)])
            return parts, touching
        for old, new in zip(original.body, updated.body, strict=True):
            if not isinstance(old, cst.SimpleStatementLine) or len(old.body) == 1:
                anchor = old.body[0] if isinstance(old, cst.SimpleStatementLine) else old
                rows.append(self._row(anchor, new))
                continue
            parts = [self._row(small, None) for small in old.body]
            touching = [one for row in parts for one in (*row.edits, row.guard) if one is not None]
            if not touching:
                rows.append(_Row(old, new, []))
                continue
            split += touching
            assert isinstance(new, cst.SimpleStatementLine)
            for position, (row, part) in enumerate(zip(parts, new.body, strict=True)):
                line = cst.SimpleStatementLine(body=[part.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)])
                if position == 0:
                    line = line.with_changes(leading_lines=new.leading_lines)
                if position == len(parts) - 1:
                    line = line.with_changes(trailing_whitespace=new.trailing_whitespace)
                row.new = line
                self.made += [(labelled, line) for labelled in touching]
            rows += parts
        return rows, split

    def _row(self, old: cst.CSTNode, new: Any) -> _Row:
        return _Row(old, new, self.statements.get(id(old), []), self.guards.get(id(old)))

    def _around(self, edits: list[Labelled], new: Any) -> tuple[list[Any], list[Any], list[Any], list[cst.EmptyLine]]:
        """What stands before, instead of and behind a statement, and comment lines left over for the next one."""
        before: list[Any] = []
        inner: list[Any] = [new]
        after: list[Any] = []
        orphans: list[cst.EmptyLine] = []
        below = 0
        for labelled in sorted(edits, key=_turn):
            edit = labelled.edit
            self.applied.add(labelled)
            if isinstance(edit, InsertBefore):
                more = self._statements(labelled, edit.text, edit.holes)
                if before and isinstance(before[-1], cst.FunctionDef | cst.ClassDef):
                    self._again(more, 0, leading_lines=[cst.EmptyLine(indent=False)] * below)
                    below = 0
                self._join(before, more)
                below = max(below, len(edit.text) - len(edit.text.rstrip("\n")) - 1)
            elif isinstance(edit, InsertAfter):
                after += self._statements(labelled, edit.text)
            elif isinstance(edit, Remove):
                inner = []
                orphans = _from_first_comment(new.leading_lines)
            elif isinstance(edit, Inline):
                inner, orphans = _branch(new, edit, labelled.rule)
                self.made += [(labelled, node) for node in inner]
            elif isinstance(edit, AddParameter):
                if not isinstance(new, cst.FunctionDef):
                    raise EditConflict(edit.at, [labelled.rule], "only a function takes parameters")
                inner = [add_parameter(new, edit.name)]
                self.made.append((labelled, inner[0].params))
        if before:
            own = inner[0].leading_lines if inner else new.leading_lines
            blank, rest = _split_leading(own)
            wanted = before[0].leading_lines
            missing = blank[len(wanted) :]
            if blank and any(line.comment is not None for line in rest):
                below = max(below, 1)  # a comment that starts a paragraph goes on to start one
            self._again(before, 0, leading_lines=[*wanted, *missing])
            if inner:
                self._again(inner, 0, leading_lines=[*[cst.EmptyLine(indent=False)] * below, *rest])
        return before, inner, after, orphans

    def _join(self, before: list[Any], more: list[Any]) -> None:
        """Put new statements behind others; what stands under the same test becomes one `if`."""
        last = before[-1] if before else None
        if isinstance(last, cst.If) and isinstance(more[0], cst.If) and last.test.deep_equals(more[0].test):
            inner = more.pop(0).body.body
            self.made += [(one, node) for one, made in self.made if made is last for node in inner]
            body = last.body.with_changes(body=[*last.body.body, *inner])
            self._again(before, len(before) - 1, body=body)
        before += more

    def _again(self, nodes: list[Any], position: int, **changes: Any) -> None:
        """Change a node of the list; the copy keeps its labels."""
        old = nodes[position]
        nodes[position] = old.with_changes(**changes)
        self.made += [(labelled, nodes[position]) for labelled, node in self.made if node is old]

    def _statements(self, labelled: Labelled, text: str, holes: Sequence[Span] = ()) -> list[Any]:
        """Parsed statements with the file's own newlines and indentation; blank lines at the top stay with them."""
        text = text.replace("\n", self.module.default_newline)
        parsed = cst.parse_module(with_placeholders(text) if holes else text, config=self.module.config_for_parsing)
        moved: dict[int, Any] = {}
        for index, span in enumerate(holes):
            key = id(self.holes[span.start, span.end])
            moved[index] = self.unreplaced.get(key, self.updated[key])
        parsed = with_holes(parsed, moved)
        nodes: list[Any] = list(parsed.body)
        nodes[0] = nodes[0].with_changes(leading_lines=[*parsed.header, *nodes[0].leading_lines])
        self.made += [(labelled, node) for node in nodes]
        return nodes

    def _guarded(self, labelled: Labelled, statements: Sequence[Any]) -> cst.If | cst.With:
        assert isinstance(labelled.edit, Guard)
        first = statements[0]
        body = [first.with_changes(leading_lines=[]), *statements[1:]]
        if not self.parents:  # blank lines of a module have no indentation, and get none
            self.bare.update(id(line) for one in body for line in _blank_lines(one))
        head = f"{labelled.edit.keyword} {labelled.edit.test}:\n    pass\n"
        parsed = cst.parse_statement(head, config=self.module.config_for_parsing)
        assert isinstance(parsed, cst.If | cst.With)
        node = parsed.with_changes(body=cst.IndentedBlock(body=body), leading_lines=first.leading_lines)
        self.made.append((labelled, node))
        self.applied.add(labelled)
        return node


def _blank_lines(node: cst.CSTNode) -> Iterator[cst.EmptyLine]:
    stack = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, cst.EmptyLine) and current.comment is None and not current.whitespace.value:
            yield current
        stack.extend(current.children)


def _split_leading(lines: Sequence[cst.EmptyLine]) -> tuple[list[cst.EmptyLine], list[cst.EmptyLine]]:
    """Blank lines before the first comment, and the rest."""
    count = next((i for i, line in enumerate(lines) if line.comment is not None), len(lines))
    return list(lines[:count]), list(lines[count:])


def _turn(labelled: Labelled) -> int:
    """Whether an edit's statements stand in front of, among or behind what others put before the same statement."""
    edit = labelled.edit
    if not isinstance(edit, InsertBefore):
        return 1
    return 0 if edit.first else 2 if edit.last else 1


def _from_first_comment(lines: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """The lines when there is a comment among them; blank lines alone go with their statement."""
    return list(lines) if any(line.comment is not None for line in lines) else []


def _starts_paragraph(statement: Any) -> bool:
    lines = statement.leading_lines
    return bool(lines) and lines[0].comment is None


def _without_last_comment(lines: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
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


def _branch(node: cst.CSTNode, edit: Inline, rule: str) -> tuple[list[Any], list[cst.EmptyLine]]:
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
    return body, _from_first_comment(branch.footer)  # type: ignore[attr-defined]


def apply_edits(text: str, edits: Iterable[Labelled]) -> Rewritten:
    """Rewrite `text`.  Raises `EditConflict`, and `SourceError` for what libcst cannot read."""
    labelled = list(dict.fromkeys(edits))
    path = labelled[0].edit.at.path
    try:
        return _apply(text, labelled)
    except cst.ParserSyntaxError as error:
        message = f"cannot be parsed by libcst: {error.message.splitlines()[0]}"
        raise SourceError(path, message, error.raw_line, error.raw_column + 1) from error
    except RecursionError as error:
        raise SourceError(path, "is nested too deeply") from error


def _apply(text: str, labelled: list[Labelled]) -> Rewritten:
    prefix = text[: len(text) - len(text.lstrip("\f"))]  # which libcst would drop
    module = cst.parse_module(text[len(prefix) :])
    if text.endswith("\r"):  # which libcst does not take for a newline
        module = module.with_changes(has_trailing_newline=True)
    holes = [hole for one in labelled for hole in getattr(one.edit, "holes", ())]
    members = [place for one in labelled if isinstance(one.edit, Guard) for place in one.edit.statements]
    wanted = {place.start for place in (*(one.edit.at for one in labelled), *holes, *members)}
    anchors = Anchors(module.default_indent, module.default_newline, wanted=frozenset(wanted), position=len(prefix))
    module._codegen(anchors)
    if prefix + "".join(anchors.tokens) != text:
        raise SourceError(labelled[0].edit.at.path, "is read differently by Python and by libcst")
    anchors.on_path.add(id(module))
    expressions: dict[int, list[Labelled]] = defaultdict(list)
    statements: dict[int, list[Labelled]] = defaultdict(list)
    guards: dict[int, Labelled] = {}
    for one in labelled:
        if isinstance(one.edit, Guard):
            for place in one.edit.statements:
                node = _statement_node(anchors, place, one)
                if id(node) in guards:
                    raise EditConflict(one.edit.at, [guards[id(node)].rule, one.rule])
                guards[id(node)] = one
        elif isinstance(one.edit, STATEMENT_EDITS):
            statements[id(_statement_node(anchors, one.edit.at, one))].append(one)
        else:
            expressions[id(_expression_node(anchors, one.edit.at, one))].append(one)
    _refuse_conflicts(text, labelled, expressions, statements, guards)
    hole_nodes: dict[tuple[int, int], cst.CSTNode] = {}
    for one in labelled:
        for hole in getattr(one.edit, "holes", ()):
            hole_nodes[hole.start, hole.end] = _expression_node(anchors, hole, one)
    rewriter = _Rewriter(module, expressions, statements, guards, hole_nodes, anchors.on_path)
    new = cst.ensure_type(module.visit(rewriter), cst.Module)
    for one in labelled:
        if one not in rewriter.applied and not _is_gone(one, labelled):
            raise EditConflict(one.edit.at, [one.rule], "the statement there cannot be changed on its own")
    state = Lines(
        new.default_indent, new.default_newline, wanted=frozenset(id(n) for _, n in rewriter.made), bare=rewriter.bare
    )
    new._codegen(state)
    before: dict[int, set[Label]] = defaultdict(set)
    after: dict[int, set[Label]] = defaultdict(set)
    for one in labelled:
        if isinstance(one.edit, InsertBefore | InsertAfter) and one not in rewriter.split:
            continue
        places = one.edit.statements if isinstance(one.edit, Guard) else (one.edit.at,)
        last = places[-1]
        for line in range(places[0].line, last.line + _newlines(text[last.start : last.end]) + 1):
            before[line].add(one.label)
    for one, node in rewriter.made:
        if id(node) in state.spans:
            first, end = state.spans[id(node)]
            for line in range(first, end + 1):
                after[line].add(one.label)
    return Rewritten(prefix + "".join(state.tokens), _frozen(before), _frozen(after))


def _newlines(text: str) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n")


def _frozen(rows: dict[int, set[Label]]) -> dict[int, frozenset[Label]]:
    return {line: frozenset(labels) for line, labels in rows.items()}


def _statement_node(anchors: Anchors, at: Span, one: Labelled) -> cst.CSTNode:
    node = anchors.statement(at.start)
    if node is None:
        raise EditConflict(at, [one.rule], "the statement there could not be found")
    return node


def _expression_node(anchors: Anchors, at: Span, one: Labelled) -> cst.CSTNode:
    node = anchors.expression(at.start, at.end)
    if node is None:
        raise EditConflict(at, [one.rule], "the expression there could not be found")
    return node


def _is_gone(one: Labelled, labelled: list[Labelled]) -> bool:
    """True when another edit takes the whole place out of the program."""
    takers = (Replace, SetArgument, DropArgument, Remove, Inline)
    return any(
        other is not one and isinstance(other.edit, takers) and other.edit.at.contains(one.edit.at)
        for other in labelled
    )


def _refuse_conflicts(
    text: str,
    labelled: list[Labelled],
    expressions: dict[int, list[Labelled]],
    statements: dict[int, list[Labelled]],
    guards: dict[int, Labelled],
) -> None:
    for group in expressions.values():
        replaces = [one for one in group if isinstance(one.edit, Replace)]
        if len(replaces) > 1:
            raise EditConflict(replaces[0].edit.at, [one.rule for one in replaces])
        names: dict[str, Labelled] = {}
        for one in group:
            if isinstance(one.edit, SetArgument | DropArgument):
                if one.edit.name in names:
                    raise EditConflict(one.edit.at, [names[one.edit.name].rule, one.rule])
                names[one.edit.name] = one
    for key, group in statements.items():
        exclusive = [one for one in group if isinstance(one.edit, Remove | Inline)]
        exclusive += [guards[key]] if key in guards and exclusive else []
        if len(exclusive) > 1:
            raise EditConflict(exclusive[0].edit.at, [one.rule for one in exclusive])
    _refuse_swallowed(text, labelled)


def _refuse_swallowed(text: str, labelled: list[Labelled]) -> None:
    """A replacement that spells out again what another edit changes would undo it (what it leaves out may go)."""
    for outer in labelled:
        if not isinstance(outer.edit, Replace):
            continue
        for one in labelled:
            at = one.edit.at
            if one is outer or at == outer.edit.at or not outer.edit.at.contains(at):
                continue
            kept = any(hole.contains(at) for hole in outer.edit.holes)
            if not kept and text[at.start : at.end] in outer.edit.text:
                raise EditConflict(at, [outer.rule, one.rule])
