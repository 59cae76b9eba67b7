"""The one pass over a libcst module that makes planned edits.

In: a module, and edits by the node that they are about.  Out: the new module, and which nodes each edit made.  Edits are
applied to *updated* nodes, from the inside out, so that nested ones compose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst

from migrator.edits import (
    AddParameter,
    DropArgument,
    Guard,
    Inline,
    InsertAfter,
    InsertBefore,
    Labelled,
    Remove,
    Replace,
    SetArgument,
)
from migrator.facts.python.syntax import Span
from migrator.rewrite.anchors import PARENTHESISED
from migrator.rewrite.conflicts import EditConflict
from migrator.rewrite.expressions import (
    add_parameter,
    drop_argument,
    fill,
    fitted,
    set_argument,
    with_holes,
    with_placeholders,
)
from migrator.rewrite.surroundings import (
    blank_lines,
    branch,
    from_first_comment,
    split_leading,
    starts_paragraph,
    without_last_comment,
)

Block = cst.Module | cst.IndentedBlock | cst.SimpleStatementSuite


@dataclass(slots=True)
class _Row:
    """A statement of a block on its way: the original, the updated one, the edits on it, and the guard that it goes under."""

    old: cst.CSTNode
    new: Any
    edits: list[Labelled]
    guard: Labelled | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done to a module: edits by the id of the node that they are about, and where to look for these nodes."""

    module: cst.Module
    expressions: Mapping[int, list[Labelled]]
    statements: Mapping[int, list[Labelled]]
    guards: Mapping[int, Labelled]
    holes: Mapping[tuple[int, int], cst.CSTNode]
    on_path: frozenset[int] | set[int]


class Rewriter(cst.CSTTransformer):
    """Visits only what leads to an edit; `made` says which nodes came of which edit."""

    def __init__(self, work: Work):
        super().__init__()
        self.module, self.expressions, self.statements, self.guards = (
            work.module,
            work.expressions,
            work.statements,
            work.guards,
        )
        self.holes, self.on_path = work.holes, work.on_path
        self.hole_ids = {id(node) for node in work.holes.values()}
        self.updated: dict[int, cst.CSTNode] = {}
        # Holes with what changed inside, before they were replaced themselves.
        self.unreplaced: dict[int, cst.CSTNode] = {}
        self.made: list[tuple[Labelled, cst.CSTNode]] = []
        self.emptied: list[cst.CSTNode] = []
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
        if isinstance(node, cst.If) and self._is_emptied(node.orelse):
            node = node.with_changes(orelse=None)
        if id(original_node) in self.hole_ids:
            self.updated[id(original_node)] = node
        return node

    def _is_emptied(self, orelse: cst.CSTNode | None) -> bool:
        """True for an `else` of which all statements are gone."""
        body = orelse.body.body if isinstance(orelse, cst.Else) else ()
        return len(body) == 1 and any(node is body[0] for node in self.emptied)

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
                body.append(self._guarded(guard, pending, getattr(original, "indent", None)))
            body.extend(behind)
            pending.clear()
            behind.clear()
            guard = None

        for row in rows:
            if row.guard is not guard:
                close()
            starts, guard = row.guard is not None and guard is None, row.guard
            new = row.new
            if removed and starts_paragraph(new):
                orphans = without_last_comment(orphans)
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
            self.emptied += body
            self.made += [(labelled, body[0]) for row in rows for labelled in row.edits]
        if isinstance(updated, cst.SimpleStatementSuite):
            updated = cst.IndentedBlock(body=[], header=updated.trailing_whitespace)
        orphans = without_last_comment(orphans) if removed else orphans
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
        return _Row(old, new, list(self.statements.get(id(old), ())), self.guards.get(id(old)))

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
                orphans = from_first_comment(new.leading_lines)
            elif isinstance(edit, Inline):
                inner, orphans = branch(new, edit, labelled.rule)
                self.made += [(labelled, node) for node in inner]
            elif isinstance(edit, AddParameter):
                if not isinstance(new, cst.FunctionDef):
                    raise EditConflict(edit.at, [labelled.rule], "only a function takes parameters")
                inner = [add_parameter(new, edit.name)]
                self.made.append((labelled, inner[0].params))
        if before:
            own = inner[0].leading_lines if inner else new.leading_lines
            blank, rest = split_leading(own)
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
        above = [line.with_changes(indent=line.comment is not None) for line in parsed.header]
        nodes[0] = nodes[0].with_changes(leading_lines=[*above, *nodes[0].leading_lines])
        self.made += [(labelled, node) for node in nodes]
        return nodes

    def _guarded(self, labelled: Labelled, statements: Sequence[Any], indent: str | None) -> cst.If | cst.With:
        """The statements under a test; `indent` is that of the block around them where it is not the file's own."""
        assert isinstance(labelled.edit, Guard)
        first = statements[0]
        body = [first.with_changes(leading_lines=[]), *statements[1:]]
        if not self.parents:  # blank lines of a module have no indentation, and get none
            self.bare.update(id(line) for one in body for line in blank_lines(one))
        head = f"{labelled.edit.keyword} {labelled.edit.test}:\n    pass\n"
        parsed = cst.parse_statement(head, config=self.module.config_for_parsing)
        assert isinstance(parsed, cst.If | cst.With)
        node = parsed.with_changes(body=cst.IndentedBlock(body=body, indent=indent), leading_lines=first.leading_lines)
        self.made.append((labelled, node))
        self.applied.add(labelled)
        return node


def _turn(labelled: Labelled) -> int:
    """Whether an edit's statements stand in front of, among or behind what others put before the same statement."""
    edit = labelled.edit
    if not isinstance(edit, InsertBefore):
        return 1
    return 0 if edit.first else 2 if edit.last else 1
