"""Who is who: follow a name, attribute or call back to what made it, over functions and modules.

In: the modules of a program.  Out: for any expression a tuple of `Value`s, each the place where the object was made (a
constructor or library call, a class, a function, a constant) or an `unknown` with the reason.  Demand-driven and memoised;
nothing is executed, and every answer may hold several values: the caller decides what is ambiguous.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager

from migrator.facts.python import chosen
from migrator.facts.python.answers import Answers, Write
from migrator.facts.python.attributes import Attributes
from migrator.facts.python.call_graph import CallGraph
from migrator.facts.python.containers import Containers
from migrator.facts.python.nodes import FunctionNode, argument, dotted, walk
from migrator.facts.python.scopes import Binding, Scope
from migrator.facts.python.syntax import Module
from migrator.facts.python.values import Told, Value, definition_value

# Methods that give their object back.
_SAME_OBJECT_METHODS = frozenset(
    [
        "cuda",
        "cpu",
        "to",
        "half",
        "float",
        "double",
        "bfloat16",
        "train",
        "eval",
        "share_memory",
        "type",
        "requires_grad_",
        "apply",
    ]
)
_MAX_DEPTH = 40


class Resolver(Answers):
    """Answers `values(module, expression)` over all modules of a program."""

    def __init__(self, modules: dict[str, Module], told: Told | None = None):
        super().__init__(modules)
        self._call_graph, self._containers, self._attributes = CallGraph(self), Containers(self), Attributes(self)
        self._told = told or Told({}, {})
        self._memo: dict[ast.AST, tuple[Value, ...]] = {}
        self._active: dict[ast.AST, int] = {}
        self._partial: dict[ast.AST, tuple[int, tuple[Value, ...]]] = {}
        self._lowest = _MAX_DEPTH + 1
        self._importing: set[ast.AST] = set()
        self._returns: dict[ast.AST, list[ast.AST]] = {}

    # ---------------------------------------------------------------- what the parts answer
    @property
    def attribute_writes(self) -> dict[str, list[Write]]:
        """Where attributes are written, by name."""
        return self._attributes.written

    def writes(self, module: Module, node: ast.Attribute) -> Iterator[Write]:
        """Assignments to the attribute of the same object: by class for `self`, else by the same spelling or class."""
        return self._attributes.writes(module, node)

    def unpack(self, module: Module, value: ast.AST, path: tuple[int, ...]) -> Iterator[Value]:
        return self._containers.unpack(module, value, path)

    def elements(self, module: Module, container: ast.AST, key: object = None) -> Iterator[Value]:
        return self._containers.elements(module, container, key)

    def is_dict(self, value: Value) -> bool:
        return self._containers.is_dict(value)

    def callee(self, module: Module, call: ast.Call) -> tuple[Module, ast.AST] | None:
        """The project's function, method or class that a call runs."""
        return self._call_graph.callee(module, call)

    def call_sites(self, function: ast.AST) -> list[tuple[Module, ast.Call]]:
        """All calls in the program that run this function (a class's call sites are its `__init__`'s)."""
        return self._call_graph.call_sites(function)

    def uses_of(self, function: ast.AST) -> list[tuple[Module, ast.AST]]:
        """Where a function is run: its calls, and where it is only named, as a callback is (`Engine(step)`, `partial(step)`)."""
        return self._call_graph.uses_of(function)

    def class_of(self, value: Value) -> tuple[Module, ast.ClassDef] | None:
        """The project's class of an instance."""
        return self._call_graph.class_of(value)

    def candidates(self, module: Module, func: ast.AST) -> list[Value]:
        """What a function or class that is chosen by a name may be; empty where the table is not in sight."""
        return chosen.candidates(self, module, func)

    # ---------------------------------------------------------------- questions in questions
    def values(self, module: Module, node: ast.AST | None) -> tuple[Value, ...]:
        """Everything that the expression may be."""
        if node is None:
            return ()
        if node in self._memo:
            return self._memo[node]
        if node in self._told.nodes:
            return self._told.nodes[node]
        if node in self._active or len(self._active) > _MAX_DEPTH:
            self._lowest = min(self._lowest, self._active.get(node, 0))
            return ()
        if node in self._partial:  # cut at a cycle, but good enough inside the question that met the cycle
            lowest, result = self._partial[node]
            self._lowest = min(self._lowest, lowest)
            return result
        depth, outer, self._lowest = len(self._active), self._lowest, _MAX_DEPTH + 1
        self._active[node] = depth
        try:
            result = tuple(dict.fromkeys(self._values(module, node)))
            if self._told.names and all(value.kind == "unknown" for value in result):
                result = self._told.names.get((dotted(node) or "").rpartition(".")[2], result)
        finally:
            del self._active[node]
        if self._lowest >= depth:
            self._memo[node] = result
            if self._partial:  # what was cut at this node can be answered in full now
                self._partial = {n: row for n, row in self._partial.items() if row[0] < depth}
        else:
            self._partial[node] = (self._lowest, result)
        self._lowest = min(outer, self._lowest)
        return result

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Within it questions are answered in full, whatever question is open outside: its own ones would be taken for a cycle."""
        open_ones = self._active, self._partial, self._lowest
        self._active, self._partial, self._lowest = {}, {}, _MAX_DEPTH + 1
        try:
            yield
        finally:
            self._active, self._partial, self._lowest = open_ones

    def forget(self) -> None:
        """Drop answers about parameters from before all calls were known."""
        self._memo.clear()
        self._partial.clear()

    @property
    def depth(self) -> int:
        """How deep in questions the one is that is being answered."""
        return len(self._active) - 1

    def cut_at(self, depth: int) -> None:
        """Note that an answer is not full, because it would need that of a question which is still open."""
        self._lowest = min(self._lowest, depth)

    # ---------------------------------------------------------------- values
    def _values(self, module: Module, node: ast.AST) -> Iterator[Value]:
        if isinstance(node, ast.Constant):
            yield Value("constant", node, module)
        elif isinstance(node, ast.Name):
            yield from self._name(module, node)
        elif isinstance(node, ast.Attribute):
            yield from self._attributes.values(module, node)
        elif isinstance(node, ast.Call):
            yield from self._call(module, node)
        elif isinstance(node, ast.IfExp):
            yield from self.values(module, node.body)
            yield from self.values(module, node.orelse)
        elif isinstance(node, ast.BoolOp):
            for part in node.values:
                yield from self.values(module, part)
        elif isinstance(node, ast.NamedExpr):
            yield from self.values(module, node.value)
        elif isinstance(node, ast.Subscript):
            yield from self._subscript(module, node)
        elif isinstance(node, ast.Await | ast.Starred):
            yield from self.values(module, node.value)
        elif isinstance(
            node, ast.Tuple | ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.GeneratorExp
        ):
            yield Value("display", node, module)
        elif isinstance(node, FunctionNode):
            yield Value("function", node, module)
        else:
            yield Value("unknown", node, module, type(node).__name__)

    def _name(self, module: Module, node: ast.Name) -> Iterator[Value]:
        scope = module.scope_of.get(node, module.scope)
        found = module.lookup(node.id, scope)
        if found is None:
            definition = self.definition(node.id, module)
            if definition is not None:
                yield definition_value(definition)
                return
            for star in module.star_imports:
                owner = self.find_module(star, module)
                if owner is not None and node.id in owner.scope.bindings:
                    for binding in owner.scope.bindings[node.id]:
                        yield from self.bound(owner, owner.scope, binding)
                    return
            yield Value("unknown", node, module, node.id)
            return
        owner_scope, bindings = found
        for binding in bindings:
            yield from self.bound(module, owner_scope, binding)

    def bound(self, module: Module, scope: Scope, binding: Binding) -> Iterator[Value]:
        """What a binding of a scope gives its name."""
        if binding.kind == "assign" and binding.value is not None:
            yield from self.unpack(module, binding.value, binding.path)
        elif binding.kind == "param":
            yield from self._parameter(module, scope, binding)
        elif binding.kind in ("def", "class"):
            yield Value("function" if binding.kind == "def" else "class", binding.node, module)
        elif binding.kind == "import":
            yield from self._imported(module, binding)
        elif binding.kind == "with" and binding.value is not None:
            yield from self.values(module, binding.value)
        elif binding.kind == "item" and binding.value is not None:
            yield from self._containers.items(module, binding.value, binding.path)

    def _imported(self, module: Module, binding: Binding) -> Iterator[Value]:
        name = binding.target
        definition = self.definition(name, module)
        if definition is not None:
            yield definition_value(definition)
            return
        head, _, last = name.rpartition(".")
        owner = self.find_module(head, module) if head else None
        if owner is not None and last in owner.scope.bindings and binding.node not in self._importing:
            self._importing.add(binding.node)  # modules may import a name from each other, in a circle
            try:
                found = [v for other in owner.scope.bindings[last] for v in self.bound(owner, owner.scope, other)]
            finally:
                self._importing.discard(binding.node)
            yield from found
            return
        yield Value("module", binding.node, module, name)

    def _subscript(self, module: Module, node: ast.Subscript) -> Iterator[Value]:
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        yield from self.elements(module, node.value, key)

    def _parameter(self, module: Module, scope: Scope, binding: Binding) -> Iterator[Value]:
        function = scope.node
        sites = self.call_sites(function) if isinstance(function, FunctionNode) else []
        bound = scope.parent is not None and scope.parent.is_class and scope.self_name is not None
        if bound and binding.path == (0,) and scope.self_name == binding.target:
            yield Value("unknown", binding.node, module, "self")
            return
        if binding.value is not None:
            yield from self.values(module, binding.value)
        for caller, call in sites:
            position = binding.path[0] - (1 if bound else 0) if binding.path else None
            given = argument(call, binding.target, position)
            if given is not None:
                yield from self.values(caller, given)
        partials, decorated = self._call_graph.partials.get(function, ()), self._call_graph.decorated.get(function, ())
        for caller, call in partials:
            given = argument(call, binding.target, binding.path[0] + 1 if binding.path else None)
            if given is not None:
                yield from self.values(caller, given)
        if decorated and binding.path == (1 if bound else 0,):
            yield from map(definition_value, decorated)
        if not (sites or partials or decorated) and binding.value is None:
            yield Value("unknown", binding.node, module, f"parameter {binding.target}")

    def _call(self, module: Module, node: ast.Call) -> Iterator[Value]:
        func = node.func
        if (
            isinstance(func, ast.Attribute)
            and func.attr in _SAME_OBJECT_METHODS
            and self.definition(module.qualified(func), module) is None
        ):
            name = module.qualified(func.value) or ""
            if name.split(".")[0] not in ("torch", "np", "numpy"):
                yield from self.values(module, func.value)
                return
        found = self.callee(module, node)
        if found is None:
            yield Value(
                "call",
                node,
                module,
                self.external_name(module, func) or (func.attr if isinstance(func, ast.Attribute) else ""),
            )
            return
        if isinstance(found[1], ast.ClassDef):
            yield Value("instance", node, module, found[0].scopes[found[1]].name)
            return
        returns = list(self.returns(found[0], found[1]))
        for owner, returned in returns:
            if returned is not None:
                yield from self.values(owner, returned)
        if not returns:
            yield Value("call", node, module, module.qualified(func) or "")

    def returns(self, module: Module, function: ast.AST) -> Iterator[tuple[Module, ast.AST | None]]:
        """The expressions that a project function gives back."""
        yield from ((module, returned) for returned in self._returned(module, function))

    def _returned(self, module: Module, function: ast.AST) -> list[ast.AST]:
        if function not in self._returns:
            scope = module.scopes.get(function)
            self._returns[function] = (
                [function.body]
                if isinstance(function, ast.Lambda)
                else [
                    node.value
                    for node in walk(function)
                    if isinstance(node, ast.Return) and module.scope_of.get(node) is scope and node.value is not None
                ]
            )
        return self._returns[function]
