"""Apply planned edits to one module in one libcst pass, and remember which rule made which line.

In: a module's text and labelled edits.  Out: the new text, and for every changed line the rules behind it.  Statements that
no edit names come out byte for byte; no formatter runs.  Raises `EditConflict` when two edits claim one place.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import libcst as cst
from libcst._nodes.internal import CodegenState

from migrator.edits import (
    STATEMENT_EDITS,
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
from migrator.facts.syntax import Span

_HOLE = re.compile(r"\$(\d+)")
_PLACEHOLDER = "__mgmigrate_hole_{}__"
Block = cst.Module | cst.IndentedBlock | cst.SimpleStatementSuite


class EditConflict(Exception):
    """Two edits want the same place; `rules` are their ids."""

    def __init__(self, at: Span, rules: Sequence[str]):
        super().__init__(f"{at.path}:{at.line}: {' and '.join(rules)} both want to change this place")
        self.at, self.rules = at, tuple(rules)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """New text of a module; `before` and `after` map 1-based line numbers to the labels of the edits there."""

    text: str
    before: dict[int, frozenset[tuple[str, str]]]
    after: dict[int, frozenset[tuple[str, str]]]


@dataclass
class _Anchors(CodegenState):
    """Finds the nodes that stand at wanted offsets, and everything on the way down to them, while code is generated."""

    wanted: frozenset[int] = frozenset()
    found: dict[tuple[int, int], list[cst.CSTNode]] = field(default_factory=lambda: defaultdict(list))
    on_path: set[int] = field(default_factory=set)
    position: int = 0
    stack: list[tuple[int, cst.CSTNode]] = field(default_factory=list)
    syntactic: set[int] = field(default_factory=set)

    def add_indent_tokens(self) -> None:
        super().add_indent_tokens()
        self.position += sum(len(token) for token in self.indent_tokens)

    def add_token(self, value: str) -> None:
        super().add_token(value)
        self.position += len(value)

    def before_codegen(self, node: cst.CSTNode) -> None:
        self.stack.append((self.position, node))

    def after_codegen(self, node: cst.CSTNode) -> None:
        start, _ = self.stack.pop()
        if id(node) not in self.syntactic:
            self._record(node, start, self.position)

    @contextmanager
    def record_syntactic_position(self, node: cst.CSTNode, *, start_node: Any = None, end_node: Any = None) -> Any:
        start = self.position
        yield
        self.syntactic.add(id(node))
        self._record(node, start, self.position)

    def _record(self, node: cst.CSTNode, start: int, end: int) -> None:
        if start in self.wanted:
            self.found[start, end].append(node)
            self.on_path.add(id(node))
            self.on_path.update(id(n) for _, n in self.stack)


@dataclass
class _Lines(CodegenState):
    """First and last line of the nodes that the edits made."""

    wanted: frozenset[int] = frozenset()
    line: int = 1
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    stack: list[int] = field(default_factory=list)
    fresh: bool = True

    def add_token(self, value: str) -> None:
        super().add_token(value)
        self.line += value.count("\n") or value.count("\r")

    def before_codegen(self, node: cst.CSTNode) -> None:
        self.stack.append(self.line)

    def after_codegen(self, node: cst.CSTNode) -> None:
        start = self.stack.pop()
        if id(node) in self.wanted:
            end = (
                self.line
                if not isinstance(node, cst.BaseCompoundStatement | cst.SimpleStatementLine)
                else self.line - 1
            )
            self.spans[id(node)] = (start, max(start, end))

    @contextmanager
    def record_syntactic_position(self, node: cst.CSTNode, *, start_node: Any = None, end_node: Any = None) -> Any:
        yield


class _Rewriter(cst.CSTTransformer):
    def __init__(
        self,
        module: cst.Module,
        expressions: dict[int, list[Labelled]],
        statements: dict[int, list[Labelled]],
        holes: set[int],
        on_path: set[int],
    ):
        super().__init__()
        self.module, self.expressions, self.statements = module, expressions, statements
        self.holes, self.on_path = holes, on_path
        self.updated: dict[int, cst.CSTNode] = {}
        self.hole_nodes: dict[tuple[int, int], cst.CSTNode] = {}
        self.made: list[tuple[Labelled, cst.CSTNode]] = []

    # ------------------------------------------------------------ traversal
    def on_visit(self, node: cst.CSTNode) -> bool:
        return id(node) in self.on_path

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> Any:
        node = updated_node
        for labelled in sorted(
            self.expressions.get(id(original_node), ()), key=lambda one: isinstance(one.edit, Replace)
        ):
            node = self._expression(labelled, node)
            self.made.append((labelled, node))
        if isinstance(original_node, cst.Module | cst.IndentedBlock | cst.SimpleStatementSuite):
            node = self._block(original_node, node)  # type: ignore[arg-type]
        if id(original_node) in self.holes:
            self.updated[id(original_node)] = node
        return node

    # ------------------------------------------------------------ expressions
    def _expression(self, labelled: Labelled, node: cst.CSTNode) -> cst.CSTNode:
        edit = labelled.edit
        if isinstance(edit, Replace):
            new = self._parse(edit.text, edit.holes)
            if isinstance(node, cst.BaseExpression) and node.lpar and not new.lpar:
                new = new.with_changes(lpar=node.lpar, rpar=node.rpar)
            return new
        if not isinstance(node, cst.Call):
            raise TypeError(f"an argument can only be changed in a call, not in {type(node).__name__}")
        if isinstance(edit, SetArgument):
            return self._set_argument(edit, node)
        if isinstance(edit, DropArgument):
            return _drop_argument(edit, node)
        raise TypeError(f"{type(edit).__name__} is not an edit of an expression")

    def _parse(self, text: str, holes: Sequence[Span]) -> cst.BaseExpression:
        code = _HOLE.sub(lambda m: _PLACEHOLDER.format(m[1]), text)
        tree = cst.parse_expression(code, config=self.module.config_for_parsing)
        if not holes:
            return tree
        nodes = {_PLACEHOLDER.format(i): self._hole(span) for i, span in enumerate(holes)}
        filled = tree.visit(_Fill(nodes))
        assert isinstance(filled, cst.BaseExpression)
        return filled

    def _hole(self, span: Span) -> cst.CSTNode:
        return self.hole_nodes_updated[span.start, span.end]

    @property
    def hole_nodes_updated(self) -> dict[tuple[int, int], cst.CSTNode]:
        return {place: self.updated.get(id(node), node) for place, node in self.hole_nodes.items()}

    def _set_argument(self, edit: SetArgument, node: cst.Call) -> cst.Call:
        value = self._parse(edit.text, edit.holes)
        index = _argument_index(node, edit.name, edit.position)
        args = list(node.args)
        if index is not None:
            args[index] = args[index].with_changes(value=value)
            return node.with_changes(args=args)
        new = cst.ensure_type(cst.parse_expression(f"f({edit.name}=x)"), cst.Call).args[0].with_changes(value=value)
        place = next((i for i, arg in enumerate(args) if arg.star == "**"), len(args))
        if place == len(args) and args:
            last = args[-1]
            trailing = last.comma
            separator = next((a.comma for a in args[:-1] if isinstance(a.comma, cst.Comma)), None)
            if separator is None:
                separator = (
                    trailing
                    if isinstance(trailing, cst.Comma)
                    else cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
                )
            if not isinstance(trailing, cst.Comma):
                # The last argument may end its line: the new one takes that whitespace over.
                args[-1] = last.with_changes(comma=separator, whitespace_after_arg=cst.SimpleWhitespace(""))
                new = new.with_changes(whitespace_after_arg=last.whitespace_after_arg)
            else:
                args[-1] = last.with_changes(comma=separator)
                new = new.with_changes(comma=trailing)
        elif place < len(args):
            new = new.with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
        args.insert(place, new)
        return node.with_changes(args=args)

    # ------------------------------------------------------------ statements
    def _block(self, original: Block, updated: Block) -> Block:
        if not any(id(statement) in self.statements for statement in original.body):
            return updated
        if isinstance(updated, cst.SimpleStatementSuite):
            return self._suite(original, updated)
        body: list[cst.CSTNode] = []
        pending: list[cst.CSTNode] = []
        guard: Labelled | None = None
        left = 0
        orphans: list[cst.EmptyLine] = []
        for old, new in zip(original.body, updated.body, strict=True):
            edits = self.statements.get(id(old), [])
            if orphans and hasattr(new, "leading_lines"):
                new = new.with_changes(leading_lines=[*orphans, *new.leading_lines])
                orphans = []
            before, inner, after = self._around(edits, new)
            starts = next((e for e in edits if isinstance(e.edit, Guard)), None)
            if starts is not None:
                guard, left = starts, len(starts.edit.statements)  # type: ignore[union-attr]
            target = pending if guard is not None else body
            if before and inner and hasattr(inner[0], "leading_lines"):
                blank, rest = _split_leading(inner[0].leading_lines)
                before[0] = self._again(before[0], _led_by(blank, before[0]))
                inner[0] = inner[0].with_changes(leading_lines=rest)
            if not inner and hasattr(new, "leading_lines"):
                comments = [line for line in new.leading_lines if line.comment is not None]
                if comments and not before:
                    orphans = list(new.leading_lines)
            if starts is not None or guard is None:
                body.extend(before)
                target.extend(inner)
            else:
                target.extend([*before, *inner])
            if guard is not None:
                left -= 1
                if left == 0:
                    body.append(self._guarded(guard, pending))
                    pending, guard = [], None
                    body.extend(after)
                else:
                    pending.extend(after)
            else:
                body.extend(after)
        if not body and not isinstance(updated, cst.Module):
            body = [cst.parse_statement("pass", config=self.module.config_for_parsing)]
        if (orphans and isinstance(updated, cst.IndentedBlock)) or (orphans and isinstance(updated, cst.Module)):
            updated = updated.with_changes(footer=[*orphans, *updated.footer])
        return updated.with_changes(body=body)

    def _around(
        self, edits: list[Labelled], new: cst.CSTNode
    ) -> tuple[list[cst.CSTNode], list[cst.CSTNode], list[cst.CSTNode]]:
        before: list[cst.CSTNode] = []
        inner: list[cst.CSTNode] = [new]
        after: list[cst.CSTNode] = []
        for labelled in edits:
            edit = labelled.edit
            if isinstance(edit, InsertBefore):
                before += self._statements(labelled, edit.text)
            elif isinstance(edit, InsertAfter):
                after += self._statements(labelled, edit.text)
            elif isinstance(edit, Remove):
                inner = []
            elif isinstance(edit, Inline):
                inner = _branch(new, edit.orelse)
                self.made += [(labelled, node) for node in inner]
        return before, inner, after

    def _suite(self, original: Block, suite: cst.SimpleStatementSuite) -> cst.IndentedBlock:
        """`if x: a; b` becomes a block, so that statements can be put around its parts."""
        lines = [
            cst.SimpleStatementLine(body=[s.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)]) for s in suite.body
        ]
        block = cst.IndentedBlock(body=lines)
        mirror = cst.IndentedBlock(body=[cst.SimpleStatementLine(body=[s]) for s in suite.body])
        for old, line in zip(original.body, mirror.body, strict=True):
            if id(old) in self.statements:
                self.statements[id(line)] = self.statements[id(old)]
        return cst.ensure_type(self._block(mirror, block), cst.IndentedBlock)

    def _statements(self, labelled: Labelled, text: str) -> list[cst.CSTNode]:
        nodes: list[cst.CSTNode] = list(cst.parse_module(text, config=self.module.config_for_parsing).body)
        self.made += [(labelled, node) for node in nodes]
        return nodes

    def _again(self, old: cst.CSTNode, new: cst.CSTNode) -> cst.CSTNode:
        """Keep the label of a made node that was copied with changes."""
        self.made += [(labelled, new) for labelled, node in self.made if node is old]
        return new

    def _guarded(self, labelled: Labelled, statements: list[cst.CSTNode]) -> cst.If:
        assert isinstance(labelled.edit, Guard)
        first = statements[0]
        leading = list(first.leading_lines)  # type: ignore[attr-defined]
        statements = [first.with_changes(leading_lines=[]), *statements[1:]]
        test = cst.parse_expression(labelled.edit.test, config=self.module.config_for_parsing)
        node = cst.If(test=test, body=cst.IndentedBlock(body=statements), leading_lines=leading)  # type: ignore[arg-type]
        self.made.append((labelled, node))
        return node


class _Fill(cst.CSTTransformer):
    def __init__(self, nodes: dict[str, cst.CSTNode]):
        super().__init__()
        self.nodes = nodes

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> Any:
        return self.nodes.get(original_node.value, updated_node)


def _split_leading(lines: Sequence[cst.EmptyLine]) -> tuple[list[cst.EmptyLine], list[cst.EmptyLine]]:
    """Blank lines before the first comment, and the rest."""
    count = next((i for i, line in enumerate(lines) if line.comment is not None), len(lines))
    return list(lines[:count]), list(lines[count:])


def _led_by(lines: Sequence[cst.EmptyLine], node: cst.CSTNode) -> cst.CSTNode:
    """The statement with more blank or comment lines above it."""
    return node.with_changes(leading_lines=[*lines, *getattr(node, "leading_lines", ())])


def _branch(node: cst.CSTNode, orelse: bool) -> list[cst.CSTNode]:
    if not isinstance(node, cst.If):
        raise TypeError("only an `if` can be inlined")
    branch: cst.BaseSuite = node.body
    if orelse:
        if not isinstance(node.orelse, cst.Else):
            raise TypeError("the `if` has no plain else branch")
        branch = node.orelse.body
    if isinstance(branch, cst.SimpleStatementSuite):
        body: list[cst.CSTNode] = [cst.SimpleStatementLine(body=branch.body)]
    else:
        body = list(branch.body)
    if body and hasattr(body[0], "leading_lines"):
        body[0] = body[0].with_changes(leading_lines=[*node.leading_lines, *body[0].leading_lines])
    return body


def _argument_index(call: cst.Call, name: str, position: int | None) -> int | None:
    for index, arg in enumerate(call.args):
        if arg.keyword is not None and arg.keyword.value == name:
            return index
    if (
        position is not None
        and position < len(call.args)
        and all(not a.star and a.keyword is None for a in call.args[: position + 1])
    ):
        return position
    return None


def _drop_argument(edit: DropArgument, call: cst.Call) -> cst.Call:
    index = _argument_index(call, edit.name, edit.position)
    if index is None:
        return call
    args = list(call.args)
    dropped = args.pop(index)
    if index == len(args) and args:
        args[-1] = args[-1].with_changes(comma=dropped.comma, whitespace_after_arg=dropped.whitespace_after_arg)
    return call.with_changes(args=args)


def apply_edits(text: str, edits: Iterable[Labelled]) -> Rewritten:
    """Rewrite `text`; every edit's place must exist in it.  Raises `EditConflict` and `LookupError`."""
    labelled = list(dict.fromkeys(edits))
    module = cst.parse_module(text)
    wanted = {one.edit.at.start for one in labelled}
    holes = [hole for one in labelled for hole in getattr(one.edit, "holes", ())]
    wanted |= {hole.start for hole in holes}
    anchors = _Anchors(
        default_indent=module.default_indent, default_newline=module.default_newline, wanted=frozenset(wanted)
    )
    module._codegen(anchors)
    anchors.on_path.add(id(module))
    expressions: dict[int, list[Labelled]] = defaultdict(list)
    statements: dict[int, list[Labelled]] = defaultdict(list)
    lines = {id(small): line for line in _simple_lines(module) for small in line.body}
    for one in labelled:
        if isinstance(one.edit, STATEMENT_EDITS):
            node = _statement_node(anchors, one.edit.at, lines)
            statements[id(node)].append(one)
        else:
            node = _expression_node(anchors, one.edit.at)
            expressions[id(node)].append(one)
    _refuse_conflicts(expressions, statements)
    hole_nodes = {(hole.start, hole.end): _expression_node(anchors, hole) for hole in holes}
    rewriter = _Rewriter(module, expressions, statements, {id(n) for n in hole_nodes.values()}, anchors.on_path)
    rewriter.hole_nodes = hole_nodes
    new = cst.ensure_type(module.visit(rewriter), cst.Module)
    state = _Lines(
        default_indent=new.default_indent,
        default_newline=new.default_newline,
        wanted=frozenset(id(n) for _, n in rewriter.made),
    )
    new._codegen(state)
    before: dict[int, set[tuple[str, str]]] = defaultdict(set)
    after: dict[int, set[tuple[str, str]]] = defaultdict(set)
    for one in labelled:
        label = (one.rule, one.reason)
        places = one.edit.statements if isinstance(one.edit, Guard) else (one.edit.at,)
        if not isinstance(one.edit, InsertBefore | InsertAfter):
            for place in places:
                height = text.count("\n", place.start, place.end)
                for line in range(place.line, place.line + height + 1):
                    before[line].add(label)
    for one, node in rewriter.made:
        if id(node) in state.spans:
            first, last = state.spans[id(node)]
            for line in range(first, last + 1):
                after[line].add((one.rule, one.reason))
    return Rewritten("".join(state.tokens), _frozen(before), _frozen(after))


def _frozen(rows: dict[int, set[tuple[str, str]]]) -> dict[int, frozenset[tuple[str, str]]]:
    return {line: frozenset(labels) for line, labels in rows.items()}


def _simple_lines(module: cst.Module) -> list[cst.SimpleStatementLine]:
    found: list[cst.SimpleStatementLine] = []
    stack: list[cst.CSTNode] = [module]
    while stack:
        node = stack.pop()
        if isinstance(node, cst.SimpleStatementLine):
            found.append(node)
        elif isinstance(
            node,
            cst.Module
            | cst.IndentedBlock
            | cst.BaseCompoundStatement
            | cst.Else
            | cst.ExceptHandler
            | cst.Finally
            | cst.MatchCase,
        ):
            stack.extend(child for child in node.children if not isinstance(child, cst.BaseExpression))
    return found


def _statement_node(anchors: _Anchors, at: Span, lines: dict[int, cst.SimpleStatementLine]) -> cst.CSTNode:
    candidates = [n for (start, _), nodes in anchors.found.items() if start == at.start for n in nodes]
    for node in candidates:
        if isinstance(node, cst.BaseSmallStatement):
            line = lines.get(id(node))
            if line is not None:
                return line
            return node
    for node in candidates:
        if isinstance(node, cst.BaseCompoundStatement):
            return node
    raise LookupError(f"{at.path}:{at.line}: no statement stands at offset {at.start}")


def _expression_node(anchors: _Anchors, at: Span) -> cst.CSTNode:
    for node in anchors.found.get((at.start, at.end), ()):
        if isinstance(node, cst.BaseExpression):
            return node
    raise LookupError(f"{at.path}:{at.line}: no expression stands at offsets {at.start} to {at.end}")


def _refuse_conflicts(expressions: dict[int, list[Labelled]], statements: dict[int, list[Labelled]]) -> None:
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
    for group in statements.values():
        exclusive = [one for one in group if isinstance(one.edit, Remove | Guard | Inline)]
        if len(exclusive) > 1:
            raise EditConflict(exclusive[0].edit.at, [one.rule for one in exclusive])
