"""The scopes of a module, and what binds each name in them.

In: a tree.  Out: `Scopes`: all nodes in source order with their parents, the scope of each, and what every scope binds and imports.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from migrator.facts.python.nodes import FunctionNode, children
from migrator.load.source import SourceError

# What takes longer to look through than anybody waits, or more memory than machines spare (about 3 KiB a node).
MAX_DEPTH, MAX_NODES = 600, 50_000
# Nodes that bind names or open a scope; most nodes do neither.
_BINDS: frozenset[type[ast.AST]] = frozenset(
    {
        ast.FunctionDef,
        ast.AsyncFunctionDef,
        ast.Lambda,
        ast.ClassDef,
        ast.ListComp,
        ast.SetComp,
        ast.GeneratorExp,
        ast.DictComp,
    }
    | {ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.For, ast.AsyncFor, ast.With, ast.AsyncWith}
    | {ast.Import, ast.ImportFrom, ast.ExceptHandler, ast.Global}
)


@dataclass(eq=False, slots=True)
class Scope:
    """A module, class, function or comprehension body: the names that it binds, with the nodes that bind them."""

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


class Scopes:
    """The nodes of a tree, with their scopes.

    Raises SourceError for a tree that takes longer to look through than anybody waits.
    """

    def __init__(self, tree: ast.Module, path: str, name: str, is_package: bool):
        self.path, self.name, self.is_package = path, name, is_package
        self.nodes: list[ast.AST] = []
        self.parents: dict[ast.AST, ast.AST] = {}
        self.scopes: dict[ast.AST, Scope] = {}
        self.scope_of: dict[ast.AST, Scope] = {}
        self.imports: dict[str, str] = {}
        self.star_imports: list[str] = []
        self.imported_modules: list[str] = []
        self.top = self._enter(tree, None, "")
        self._walk(tree, self.top)

    def _walk(self, node: ast.AST, scope: Scope) -> None:
        stack: list[tuple[ast.AST, Scope, int]] = []
        for child in reversed(children(node)):
            self.parents[child] = node
            stack.append((child, scope, 1))
        while stack:
            current, scope, depth = stack.pop()
            if len(self.nodes) > MAX_NODES:
                told = f"is larger than {MAX_NODES} expressions and statements; it was not looked at"
                raise SourceError(self.path, told)
            if depth > MAX_DEPTH:
                raise SourceError(
                    self.path, "is nested too deeply; it was not looked at", _line(self.parents, current), 1
                )
            self.scope_of[current] = scope
            self.nodes.append(current)
            inner = self._visit(current, scope) if type(current) in _BINDS else scope
            for child in reversed(children(current)):
                self.parents[child] = current
                outside = inner is not scope and _is_evaluated_outside(current, child)
                stack.append((child, scope if outside else inner, depth + 1))

    def _enter(self, node: ast.AST, parent: Scope | None, name: str) -> Scope:
        scope = Scope(node, parent, name)
        self.scopes[node] = scope
        return scope

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

    # ---------------------------------------------------------------- bindings
    def _bind(self, scope: Scope, name: str, binding: Binding) -> None:
        if name in scope.globals:
            scope = self.top
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
        base = absolute_name(node.module or "", node.level, self.name, self.is_package)
        for alias in node.names:
            if alias.name == "*":
                self.star_imports.append(base)
                self.imported_modules.append(base)
                continue
            qualified = f"{base}.{alias.name}" if base else alias.name
            self._bind(scope, alias.asname or alias.name, Binding("import", node, None, (), qualified))
            self.imports.setdefault(alias.asname or alias.name, qualified)
            self.imported_modules.append(qualified)


def absolute_name(module: str, level: int, importer: str, is_package: bool) -> str:
    """Absolute name of a possibly relative import, as the module `importer` writes it."""
    if not level:
        return module
    parts = importer.split(".")
    keep = len(parts) - level + (1 if is_package else 0)
    return ".".join([*parts[: max(keep, 0)], *([module] if module else [])])


def _line(parents: dict[ast.AST, ast.AST], node: ast.AST) -> int:
    """The line of a node, or of what it is part of."""
    while not hasattr(node, "lineno"):
        node = parents[node]
    return int(node.lineno)


def _is_evaluated_outside(node: ast.AST, child: ast.AST) -> bool:
    """Decorators, defaults, annotations and base classes belong to the scope around a definition."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return child in node.decorator_list or child is node.args or child is node.returns
    if isinstance(node, ast.ClassDef):
        return child in node.bases or child in node.decorator_list or child in node.keywords
    if isinstance(node, ast.Lambda):
        return child is node.args
    return False
