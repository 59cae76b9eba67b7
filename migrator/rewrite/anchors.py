"""Map offsets of a text to libcst nodes, and made nodes to the lines that they end up on.

In: a libcst module and wanted offsets, or made nodes.  Out: nodes, or line ranges.  Both are read off libcst's own code
generation, which is several times cheaper than its metadata wrapper.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Set
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import libcst as cst
from libcst._nodes.internal import CodegenState

_NOT_RECORDED: nullcontext[None] = nullcontext()
# Their parentheses belong to them in `ast`, and stand around them in libcst.
PARENTHESISED = (cst.Tuple, cst.GeneratorExp)


@dataclass
class Anchors(CodegenState):
    """Finds the nodes that stand at wanted offsets, and everything on the way down to them, while code is generated."""

    kept: Mapping[str, str] = field(default_factory=dict)  # what names stand for that folding has put in
    wanted: Set[int] = frozenset()
    found: dict[tuple[int, int], list[cst.CSTNode]] = field(default_factory=lambda: defaultdict(list))
    by_start: dict[int, list[cst.CSTNode]] = field(default_factory=lambda: defaultdict(list))
    on_path: set[int] = field(default_factory=set)
    position: int = 0
    stack: list[tuple[int, cst.CSTNode]] = field(default_factory=list)
    syntactic: set[int] = field(default_factory=set)

    def add_indent_tokens(self) -> None:
        tokens = self.indent_tokens
        self.tokens.extend(tokens)
        for token in tokens:
            self.position += len(token)

    def add_token(self, value: str) -> None:
        value = self.kept.get(value, value)
        self.tokens.append(value)
        self.position += len(value)

    def before_codegen(self, node: cst.CSTNode) -> None:
        self.stack.append((self.position, node))

    def after_codegen(self, node: cst.CSTNode) -> None:
        start, _ = self.stack.pop()
        if start in self.wanted and (id(node) not in self.syntactic or isinstance(node, PARENTHESISED)):
            self._record(node, start, self.position)

    def record_syntactic_position(self, node: cst.CSTNode, *, start_node: Any = None, end_node: Any = None) -> Any:
        return _Recorded(self, node) if self.position in self.wanted else _NOT_RECORDED

    def _record(self, node: cst.CSTNode, start: int, end: int) -> None:
        self.found[start, end].append(node)
        self.by_start[start].append(node)
        self.on_path.add(id(node))
        self.on_path.update(id(n) for _, n in self.stack)

    def expression(self, start: int, end: int) -> cst.BaseExpression | None:
        """The expression at `[start, end)`, innermost first."""
        return next((n for n in self.found.get((start, end), ()) if isinstance(n, cst.BaseExpression)), None)

    def statement(self, start: int) -> cst.BaseSmallStatement | cst.BaseCompoundStatement | None:
        """The statement that begins at an offset (a definition begins at its `def` or `class`, as in `ast`)."""
        nodes = self.by_start.get(start, ())
        small = (n for n in nodes if isinstance(n, cst.BaseSmallStatement))
        return next(small, None) or next((n for n in nodes if isinstance(n, cst.BaseCompoundStatement)), None)


class _Recorded:
    """Around the generation of a node: records where it begins and ends.  (A generator would take most of the time.)"""

    __slots__ = ("anchors", "node", "start")

    def __init__(self, anchors: Anchors, node: cst.CSTNode):
        self.anchors, self.node, self.start = anchors, node, anchors.position

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.anchors.syntactic.add(id(self.node))
        self.anchors._record(self.node, self.start, self.anchors.position)


@dataclass
class Lines(CodegenState):
    """First and last line of wanted nodes in generated code; `bare` lines get no indentation."""

    kept: Mapping[str, str] = field(default_factory=dict)
    wanted: Set[int] = frozenset()
    bare: set[int] = field(default_factory=set)
    is_bare: bool = False
    line: int = 1
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    stack: list[int] = field(default_factory=list)

    def add_token(self, value: str) -> None:
        value = self.kept.get(value, value)
        self.tokens.append(value)
        if "\n" in value or "\r" in value:
            self.line += value.count("\n") + value.count("\r") - value.count("\r\n")

    def add_indent_tokens(self) -> None:
        if not self.is_bare:
            self.tokens.extend(self.indent_tokens)

    def before_codegen(self, node: cst.CSTNode) -> None:
        self.stack.append(self.line)
        if self.bare:
            self.is_bare = id(node) in self.bare

    def after_codegen(self, node: cst.CSTNode) -> None:
        start = self.stack.pop()
        if id(node) in self.wanted:
            ends_line = isinstance(node, cst.BaseCompoundStatement | cst.SimpleStatementLine | cst.IndentedBlock)
            self.spans[id(node)] = (start, max(start, self.line - ends_line))

    def record_syntactic_position(self, node: cst.CSTNode, *, start_node: Any = None, end_node: Any = None) -> Any:
        return _NOT_RECORDED
