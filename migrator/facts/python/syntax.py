"""One parsed module: where its nodes stand, what is around them, and what a name is bound to.

In: a `Source`.  Out: a `Module`.  Nothing here decides what is to be converted, and nothing mutates a tree.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from migrator.facts.python.nodes import FunctionNode, dotted
from migrator.facts.python.scopes import Binding, Scope, Scopes, absolute_name
from migrator.load.source import Source, parse_tree

_NEWLINE = re.compile(r"\r\n|\r|\n")
_QUIET_BUILTINS = frozenset(["bool", "getattr", "hasattr", "int", "isinstance", "len", "str"])


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A place in a file: character offsets `[start, end)` and the 1-based line of its start."""

    path: str
    start: int
    end: int
    line: int

    def contains(self, other: Span) -> bool:
        return self.path == other.path and self.start <= other.start and other.end <= self.end


class Module:
    """A parsed file with parents, scopes and imports; `tree` is what stands for the source where it is read as something else."""

    def __init__(self, source: Source, name: str, is_package: bool = False, tree: ast.Module | None = None):
        self.source, self.path, self.name, self.is_package = source, source.path, name, is_package
        self.text = source.parseable
        self.tree = tree or parse_tree(source)
        self._line_starts = [0, *(m.end() for m in _NEWLINE.finditer(self.text))]
        self._ascii = self.text.isascii()
        found = Scopes(self.tree, self.path, name, is_package)
        self.nodes, self.parents = found.nodes, found.parents
        self.scopes, self.scope_of, self.scope = found.scopes, found.scope_of, found.top
        self.imports, self.star_imports = found.imports, found.star_imports
        self.imported_modules = found.imported_modules
        self._qualified: dict[ast.AST, str | None] = {}
        self._spans: dict[ast.AST, Span] = {}

    # ---------------------------------------------------------------- places
    def offset(self, line: int, column: int) -> int:
        """Character offset of an ast position (1-based line, column in UTF-8 bytes)."""
        start = self._line_starts[line - 1]
        if self._ascii:
            return start + column
        end = self._line_starts[line] if line < len(self._line_starts) else len(self.text)
        return start + len(self.text[start:end].encode()[:column].decode(errors="replace"))

    def span(self, node: ast.AST) -> Span:
        """The place of an expression, statement or argument (decorators are not part of a definition's place)."""
        known = self._spans.get(node)
        if known is None:
            start = self.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]
            end = self.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
            known = self._spans[node] = Span(self.path, start, end, node.lineno)  # type: ignore[attr-defined]
        return known

    def line_at(self, offset: int) -> int:
        """The 1-based line that holds a character offset."""
        return bisect_right(self._line_starts, offset)

    def segment(self, node: ast.AST) -> str:
        """Source text of a node."""
        span = self.span(node)
        return self.text[span.start : span.end]

    def line_text(self, line: int) -> str:
        end = self._line_starts[line] if line < len(self._line_starts) else len(self.text)
        return self.text[self._line_starts[line - 1] : end].rstrip("\r\n")

    # ---------------------------------------------------------------- structure
    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self.parents:
            node = self.parents[node]
            yield node

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds the node."""
        if isinstance(node, ast.stmt):
            return node
        return next(a for a in self.ancestors(node) if isinstance(a, ast.stmt))

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The list of statements in which this one stands."""
        parent = self.parents[statement]
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and statement in block:
                return block
        return [statement]

    def statement_at(self, span: Span) -> ast.stmt | None:
        """The statement at a place."""
        found = (n for n in self.nodes if isinstance(n, ast.stmt) and n.lineno == span.line and self.span(n) == span)
        return next(found, None)

    def expression_at(self, span: Span) -> ast.expr:
        """The outermost expression at the place of one."""
        found = (n for n in self.nodes if isinstance(n, ast.expr) and n.lineno == span.line and self.span(n) == span)
        return next(found)

    def is_test_at(self, span: Span) -> bool:
        """True for an `if` or `while` at a place."""
        return isinstance(self.statement_at(span), ast.If | ast.While)

    def has_else_at(self, span: Span) -> bool:
        """True for a statement at a place with an else branch."""
        return bool(getattr(self.statement_at(span), "orelse", ()))

    def emptied_by(self, span: Span) -> Span:
        """The statement at a place, or the outermost `if` that would be left without statements if it went."""
        found: ast.AST | None = self.statement_at(span)
        while found is not None:
            parent = self.parents.get(found)
            if not isinstance(parent, ast.If) or parent.orelse or len(parent.body) != 1:
                break
            if not _only_asks(parent.test):
                break
            outer = self.parents.get(parent)
            if isinstance(outer, ast.If) and parent in outer.orelse:
                break  # an `elif`
            found = parent
        return self.span(found) if found is not None else span

    def follows(self, second: Span, first: Span) -> bool:
        """True when the statement at `second` stands in the same block right behind the one at `first`."""
        node = self.statement_at(first)
        if second.path != self.path or node is None:
            return False
        block = self.block(node)
        behind = block[block.index(node) + 1 :]
        return bool(behind) and self.span(behind[0]) == second

    def enclosing(self, node: ast.AST, *kinds: type[ast.AST]) -> ast.AST | None:
        """The nearest ancestor of one of the kinds, within the same function."""
        for ancestor in self.ancestors(node):
            if isinstance(ancestor, kinds):
                return ancestor
            if isinstance(ancestor, FunctionNode | ast.ClassDef):
                return None
        return None

    def enclosing_function(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The function in whose body the node stands, or None at module level."""
        for ancestor in self.ancestors(node):
            if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef):
                return ancestor
        return None

    # ---------------------------------------------------------------- names
    def absolute(self, module: str, level: int) -> str:
        """Absolute name of a possibly relative import."""
        return absolute_name(module, level, self.name, self.is_package)

    def lookup(self, name: str, scope: Scope) -> tuple[Scope, list[Binding]] | None:
        """The scope that binds a name as seen from `scope`, with the bindings (Python's rules: classes are skipped)."""
        current: Scope | None = scope
        first = True
        while current is not None:
            if (first or not current.is_class) and name in current.bindings and name not in current.globals:
                return current, current.bindings[name]
            first = False
            current = current.parent
        return None

    def always_imports(self, name: str, before: int | None = None) -> bool:
        """True when a plain top-level statement (above an offset) imports the name, under no condition and in no function."""
        return any(
            b.kind == "import"
            and isinstance(self.parents.get(b.node), ast.Module)
            and (before is None or self.span(b.node).start < before)
            for b in self.scope.bindings.get(name, ())
        )

    def imported_name(self, binding: Binding) -> str | None:
        """The qualified name that an import binding stands for."""
        return binding.target if binding.kind == "import" else None

    def qualified(self, node: ast.AST) -> str | None:
        """The dotted name of an expression with imports resolved: `optim.SGD` → `torch.optim.SGD`.

        A name that the module does not import keeps its own text; an expression that is no dotted name gives None.
        """
        if node not in self._qualified:
            self._qualified[node] = self._qualified_name(node)
        return self._qualified[node]

    def _qualified_name(self, node: ast.AST) -> str | None:
        parts: list[str] = []
        current = node
        while isinstance(current, ast.Attribute):
            parts.append(current.attr)
            current = current.value
        if not isinstance(current, ast.Name):
            return None
        found = self.lookup(current.id, self.scope_of.get(current, self.scope))
        head = current.id
        if found is not None:
            imported = [self.imported_name(b) for b in found[1]]
            known = next((name for name in imported if name), None)
            if known is not None:
                head = known
        return ".".join([head, *reversed(parts)])


def _only_asks(test: ast.AST) -> bool:
    """True when nothing happens in a test: its calls only look."""
    for node in ast.walk(test):
        if isinstance(node, ast.NamedExpr | ast.Await):
            return False
        if isinstance(node, ast.Call):
            name = dotted(node.func) or ""
            if name not in _QUIET_BUILTINS and not name.endswith((".is_available", ".device_count")):
                return False
    return True
