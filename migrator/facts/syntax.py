"""One parsed module: places, scopes, imports and argument look-up over the standard `ast`.

In: a `Source`.  Out: a `Module` that answers what a name is bound to and where a node stands.  Nothing here decides what
is to be converted, and nothing mutates a tree.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from migrator.load.source import Source, SourceError, parse_tree

_NEWLINE = re.compile(r"\r\n|\r|\n")
# What takes longer to look through than anybody waits, or more memory than machines spare (about 3 KiB a node).
_MAX_DEPTH, MAX_NODES = 600, 50_000
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
# Nodes that bind names or open a scope; most nodes do neither.
_BINDS: set[type[ast.AST]] = {
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ClassDef,
    ast.ListComp,
    ast.SetComp,
}
_BINDS |= {
    ast.GeneratorExp,
    ast.DictComp,
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.NamedExpr,
    ast.For,
    ast.AsyncFor,
}
_BINDS |= {ast.With, ast.AsyncWith, ast.Import, ast.ImportFrom, ast.ExceptHandler, ast.Global}
_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {}
_NO_CHILDREN = frozenset(["ctx", "op", "ops", "id", "attr", "name", "arg", "kind", "module", "level", "asname"])

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


@dataclass(eq=False, slots=True)
class Scope:
    """A module, class, function or comprehension body: the names that it binds, with the nodes that bind them."""

    module: Module
    node: ast.AST
    parent: Scope | None
    name: str
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    globals: set[str] = field(default_factory=set)

    @property
    def is_function(self) -> bool:
        return isinstance(self.node, FunctionNode)

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)

    @property
    def owner_class(self) -> Scope | None:
        """The class whose method this scope is in (also from nested functions)."""
        scope: Scope | None = self
        while scope is not None:
            if scope.parent is not None and scope.parent.is_class and scope.is_function:
                return scope.parent
            scope = scope.parent
        return None

    @property
    def method(self) -> Scope | None:
        """The method that this scope is or is nested in."""
        scope: Scope | None = self
        while scope is not None:
            if scope.parent is not None and scope.parent.is_class and scope.is_function:
                return scope
            scope = scope.parent
        return None

    @property
    def self_name(self) -> str | None:
        method = self.method
        if method is None or not isinstance(method.node, ast.FunctionDef | ast.AsyncFunctionDef):
            return None
        if any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in method.node.decorator_list):
            return None
        arguments = [*method.node.args.posonlyargs, *method.node.args.args]
        return arguments[0].arg if arguments else None


@dataclass(frozen=True, slots=True)
class Binding:
    """One way in which a name gets its value.

    `kind` is assign, element (of an unpacked value), item (of an iterated value), param, import, def, class, with, augment
    or other; `value` is the node that gives the value, `path` the positions taken out of it by unpacking.
    """

    kind: str
    node: ast.AST
    value: ast.AST | None
    path: tuple[int, ...] = ()
    target: str = ""


def _line(parents: dict[ast.AST, ast.AST], node: ast.AST) -> int:
    """The line of a node, or of what it is part of."""
    while not hasattr(node, "lineno"):
        node = parents[node]
    return int(node.lineno)


class Module:
    """A parsed file with parents, scopes and imports."""

    def __init__(self, source: Source, name: str, is_package: bool = False):
        self.source, self.path, self.name, self.is_package = source, source.path, name, is_package
        self.text = source.parseable
        self.tree = parse_tree(source)
        self._line_starts = [0, *(m.end() for m in _NEWLINE.finditer(self.text))]
        self._ascii = self.text.isascii()
        self.parents: dict[ast.AST, ast.AST] = {}
        self.scopes: dict[ast.AST, Scope] = {}
        self.scope_of: dict[ast.AST, Scope] = {}
        self.imports: dict[str, str] = {}
        self.star_imports: list[str] = []
        self.imported_modules: list[str] = []
        self.nodes: list[ast.AST] = []
        self._qualified: dict[ast.AST, str | None] = {}
        self._spans: dict[ast.AST, Span] = {}
        self.scope = self._enter(self.tree, None, "")
        self._walk(self.tree, self.scope)

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

    def _enter(self, node: ast.AST, parent: Scope | None, name: str) -> Scope:
        scope = Scope(self, node, parent, name)
        self.scopes[node] = scope
        return scope

    def _bind(self, scope: Scope, name: str, binding: Binding) -> None:
        if name in scope.globals:
            scope = self.scope
        scope.bindings.setdefault(name, []).append(binding)

    def _bind_target(
        self, scope: Scope, target: ast.AST, kind: str, node: ast.AST, value: ast.AST | None, path: tuple[int, ...] = ()
    ) -> None:
        if isinstance(target, ast.Name):
            self._bind(scope, target.id, Binding(kind, node, value, path, target.id))
        elif isinstance(target, ast.Starred):
            self._bind_target(scope, target.value, "other", node, value)
        elif isinstance(target, ast.Tuple | ast.List):
            for position, element in enumerate(target.elts):
                if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts) and kind == "assign":
                    self._bind_target(scope, element, "assign", node, value.elts[position])
                else:
                    self._bind_target(scope, element, kind, node, value, (*path, position))

    def _walk(self, node: ast.AST, scope: Scope) -> None:
        stack: list[tuple[ast.AST, Scope, int]] = []
        for child in reversed(_children(node)):
            self.parents[child] = node
            stack.append((child, scope, 1))
        while stack:
            current, scope, depth = stack.pop()
            if len(self.nodes) > MAX_NODES:
                told = f"is larger than {MAX_NODES} expressions and statements; it was not looked at"
                raise SourceError(self.path, told)
            if depth > _MAX_DEPTH:
                raise SourceError(
                    self.path, "is nested too deeply; it was not looked at", _line(self.parents, current), 1
                )
            self.scope_of[current] = scope
            self.nodes.append(current)
            inner = self._visit(current, scope) if type(current) in _BINDS else scope
            for child in reversed(_children(current)):
                self.parents[child] = current
                outside = inner is not scope and _is_evaluated_outside(current, child)
                stack.append((child, scope if outside else inner, depth + 1))

    def _visit(self, node: ast.AST, scope: Scope) -> Scope:
        """Record what the node binds; return the scope of its children."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._bind(scope, node.name, Binding("def", node, node))
            inner = self._enter(node, scope, f"{scope.name}.{node.name}".lstrip("."))
            self._bind_parameters(inner, node.args)
            return inner
        if isinstance(node, ast.Lambda):
            inner = self._enter(node, scope, f"{scope.name}.<lambda>")
            self._bind_parameters(inner, node.args)
            return inner
        if isinstance(node, ast.ClassDef):
            self._bind(scope, node.name, Binding("class", node, node))
            return self._enter(node, scope, f"{scope.name}.{node.name}".lstrip("."))
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            inner = self._enter(node, scope, f"{scope.name}.<comp>")
            for generator in node.generators:
                self._bind_target(inner, generator.target, "item", node, generator.iter)
            return inner
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind_target(scope, target, "assign", node, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._bind_target(scope, node.target, "assign", node, node.value)
        elif isinstance(node, ast.AugAssign):
            self._bind_target(scope, node.target, "augment", node, node.value)
        elif isinstance(node, ast.NamedExpr):
            self._bind_target(scope, node.target, "assign", node, node.value)
        elif isinstance(node, ast.For | ast.AsyncFor):
            self._bind_target(scope, node.target, "item", node, node.iter)
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                if item.optional_vars is not None:
                    self._bind_target(scope, item.optional_vars, "with", node, item.context_expr)
        elif isinstance(node, ast.Import):
            self._bind_import(scope, node)
        elif isinstance(node, ast.ImportFrom):
            self._bind_import_from(scope, node)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            self._bind(scope, node.name, Binding("other", node, None))
        elif isinstance(node, ast.Global):
            scope.globals.update(node.names)
        return scope

    def _bind_parameters(self, scope: Scope, arguments: ast.arguments) -> None:
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults)) + list(
            arguments.defaults
        )
        for position, (argument, default) in enumerate(zip(positional, defaults, strict=True)):
            scope.bindings[argument.arg] = [Binding("param", argument, default, (position,), argument.arg)]
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            scope.bindings[argument.arg] = [Binding("param", argument, default, (), argument.arg)]
        for extra in (arguments.vararg, arguments.kwarg):
            if extra is not None:
                scope.bindings[extra.arg] = [Binding("other", extra, None)]

    def _bind_import(self, scope: Scope, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.split(".")[0]
            qualified = alias.name if alias.asname else name
            self._bind(scope, name, Binding("import", node, None, (), qualified))
            self.imports.setdefault(name, qualified)
            self.imported_modules.append(alias.name)

    def _bind_import_from(self, scope: Scope, node: ast.ImportFrom) -> None:
        base = self.absolute(node.module or "", node.level)
        for alias in node.names:
            if alias.name == "*":
                self.star_imports.append(base)
                self.imported_modules.append(base)
                continue
            qualified = f"{base}.{alias.name}" if base else alias.name
            self._bind(scope, alias.asname or alias.name, Binding("import", node, None, (), qualified))
            self.imports.setdefault(alias.asname or alias.name, qualified)
            self.imported_modules.append(qualified)

    def absolute(self, module: str, level: int) -> str:
        """Absolute name of a possibly relative import."""
        if not level:
            return module
        parts = self.name.split(".")
        keep = len(parts) - level + (1 if self.is_package else 0)
        return ".".join([*parts[: max(keep, 0)], *([module] if module else [])])

    # ---------------------------------------------------------------- names
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


def _children(node: ast.AST) -> list[ast.AST]:
    """The child nodes in source order, without contexts and operators (which all trees share, and which have no place)."""
    found: list[ast.AST] = []
    for name in _fields_of(type(node)):
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            found.append(value)
        elif isinstance(value, list):
            found += [one for one in value if isinstance(one, ast.AST)]
    return found


def _fields_of(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a kind of node that can hold child nodes; those left out hold what all trees share, or plain values."""
    known = _FIELDS.get(kind)
    if known is None:
        known = _FIELDS[kind] = tuple(name for name in kind._fields if name not in _NO_CHILDREN)
    return known


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all below it, level by level, as `ast.walk` but without contexts and operators, in a third of the time."""
    found = [node]
    for current in found:
        yield current
        found += _children(current)


def _is_evaluated_outside(node: ast.AST, child: ast.AST) -> bool:
    """Decorators, defaults, annotations and base classes belong to the scope around a definition."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return child in node.decorator_list or child is node.args or child is node.returns
    if isinstance(node, ast.ClassDef):
        return child in node.bases or child in node.decorator_list or child in node.keywords
    if isinstance(node, ast.Lambda):
        return child is node.args
    return False


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


def argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """The value of a call's argument, given by keyword or by position; None when it is absent or hidden in a `*`."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if position is not None and position < len(call.args):
        values = call.args[: position + 1]
        if not any(isinstance(value, ast.Starred) for value in values):
            return values[-1]
    return None


def has_unpacking(call: ast.Call) -> bool:
    """True when arguments arrive through `*args` or `**kwargs`."""
    return any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)


def names_in(node: ast.AST) -> set[str]:
    """Plain names that an expression or statement mentions."""
    return {n.id for n in walk(node) if isinstance(n, ast.Name)}


def dotted(node: ast.AST) -> str | None:
    """`a.b.c` as text, or None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else None
    return None
