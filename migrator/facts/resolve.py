"""Who is who: follow a name, attribute or call back to what made it, over functions and modules.

In: the modules of a program.  Out: for any expression a tuple of `Value`s, each the place where the object was made (a
constructor or library call, a class, a function, a constant) or an `unknown` with the reason.  Demand-driven and memoised;
nothing is executed, and every answer may hold several values: the caller decides what is ambiguous.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from migrator.facts import chosen
from migrator.facts.syntax import Binding, FunctionNode, Module, Scope, argument, dotted, walk

# Methods that give their object back.
SAME_OBJECT_METHODS = frozenset(
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


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression may be: kind is call, instance, class, function, module, constant, display or unknown."""

    kind: str
    node: ast.AST | None
    module: Module | None
    name: str = ""

    @property
    def is_call(self) -> bool:
        return self.kind in ("call", "instance")


@dataclass(frozen=True, slots=True)
class Told:
    """What the user says: values of expressions, and of names of which nothing is known."""

    nodes: Mapping[ast.AST, tuple[Value, ...]]
    names: Mapping[str, tuple[Value, ...]]


class Resolver:
    """Answers `values(module, expression)` over all modules of a program."""

    def __init__(self, modules: dict[str, Module], told: Told | None = None):
        self.modules = modules
        self._told = told or Told({}, {})
        self.definitions: dict[str, tuple[Module, ast.AST]] = {}
        self.methods: dict[str, list[Scope]] = {}
        self.attribute_writes: dict[str, list[tuple[Module, ast.Attribute, ast.AST | None, tuple[int, ...]]]] = {}
        self.calls: list[tuple[Module, ast.Call]] = []
        self._memo: dict[ast.AST, tuple[Value, ...]] = {}
        self._definitions_memo: dict[tuple[str, str], tuple[Module, ast.AST] | None] = {}
        self._external_memo: dict[tuple[str, str], str] = {}
        self._active: dict[ast.AST, int] = {}
        self._lines: dict[ast.AST, set[ast.AST]] | None = None  # subclasses by class
        self._families: dict[ast.AST, set[ast.AST]] = {}
        self._importing: set[ast.AST] = set()
        self._unpacking: dict[tuple[ast.AST, tuple[int, ...]], int] = {}
        self._returns: dict[ast.AST, list[ast.AST]] = {}
        self._filled: dict[Module, dict[str, list[ast.AST]]] = {}
        self._partial: dict[ast.AST, tuple[int, tuple[Value, ...]]] = {}
        self._lowest = _MAX_DEPTH + 1
        self._call_sites: dict[ast.AST, list[tuple[Module, ast.Call]]] | None = None
        self._partials: dict[ast.AST, list[tuple[Module, ast.Call]]] = {}  # partial(function, ...)
        self._through: dict[
            ast.AST, list[tuple[Module, ast.AST]]
        ] = {}  # calls of such a partial, or of a table's entry
        self._decorated: dict[ast.AST, list[tuple[Module, ast.AST]]] = {}  # what a decorator is given
        self._by_tail: dict[str, list[str]] = {}
        for module in modules.values():
            self._index(module)
        for name in modules:
            parts = name.split(".")
            for start in range(len(parts)):
                self._by_tail.setdefault(".".join(parts[start:]), []).append(name)

    def _index(self, module: Module) -> None:
        for node in module.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                scope = module.scopes[node]
                self.definitions[f"{module.name}.{scope.name}"] = (module, node)
                if not isinstance(node, ast.ClassDef) and scope.parent is not None and scope.parent.is_class:
                    self.methods.setdefault(node.name, []).append(scope)
            elif isinstance(node, ast.Call):
                self.calls.append((module, node))
                self._index_registered(module, node)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    self._index_write(module, target, node.value, ())
            elif isinstance(node, ast.AnnAssign | ast.AugAssign):
                self._index_write(module, node.target, node.value, ())
            elif isinstance(node, ast.For):
                self._index_write(module, node.target, None, ())

    def _index_registered(self, module: Module, call: ast.Call) -> None:
        """`self.add_module("name", layer)` sets an attribute."""
        func, given = call.func, [*call.args, *(keyword.value for keyword in call.keywords)]
        if isinstance(func, ast.Attribute) and func.attr in ("add_module", "register_module") and len(given) == 2:
            name = given[0].value if isinstance(given[0], ast.Constant) else None
            if isinstance(name, str):
                target = ast.copy_location(ast.Attribute(func.value, name, ast.Store()), call)
                self._index_write(module, target, given[1], ())

    def _index_write(self, module: Module, target: ast.AST, value: ast.AST | None, path: tuple[int, ...]) -> None:
        if isinstance(target, ast.Attribute):
            self.attribute_writes.setdefault(target.attr, []).append((module, target, value, path))
        elif isinstance(target, ast.Tuple | ast.List):
            for position, element in enumerate(target.elts):
                if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
                    self._index_write(module, element, value.elts[position], ())
                else:
                    self._index_write(module, element, value, (*path, position))

    # ---------------------------------------------------------------- definitions
    def definition(self, qualified: str | None, module: Module) -> tuple[Module, ast.AST] | None:
        """The project's function or class of a qualified name (re-exports and implicit packages are followed)."""
        if not qualified:
            return None
        key = (module.name, qualified)
        if key not in self._definitions_memo:
            self._definitions_memo[key] = None  # a cycle of star imports finds nothing new
            self._definitions_memo[key] = self._definition(qualified, module)
        return self._definitions_memo[key]

    def _definition(self, qualified: str, module: Module) -> tuple[Module, ast.AST] | None:
        for candidate in (f"{module.name}.{qualified}", qualified):
            if candidate in self.definitions:
                return self.definitions[candidate]
        head, _, last = qualified.rpartition(".")
        if head:
            owner = self.find_module(head, module)
            if owner is not None:
                found = self.definitions.get(f"{owner.name}.{last}")
                if found is not None:
                    return found
                if last in owner.imports and owner.imports[last] != qualified:
                    return self.definition(owner.imports[last], owner)
                for star in owner.star_imports:
                    found = self.definition(f"{star}.{last}", owner)
                    if found is not None:
                        return found
            inner = self.definition(head, module)
            if inner is not None and isinstance(inner[1], ast.ClassDef):
                return self.definitions.get(f"{inner[0].name}.{inner[0].scopes[inner[1]].name}.{last}")
        elif qualified not in module.scope.bindings:
            for star in module.star_imports:
                found = self.definition(f"{star}.{qualified}", module)
                if found is not None:
                    return found
        return None

    def find_module(self, name: str, importer: Module) -> Module | None:
        """The program's module of a dotted name, as seen from another module."""
        if name in self.modules:
            return self.modules[name]
        package = importer.name.rpartition(".")[0]
        if package and f"{package}.{name}" in self.modules:
            return self.modules[f"{package}.{name}"]
        tails = self._by_tail.get(name, [])
        return self.modules[tails[0]] if len(tails) == 1 else None

    def external_name(self, module: Module, node: ast.AST) -> str | None:
        """The library name of an expression, also when it arrives by a star import: `nn.Linear` → `torch.nn.Linear`."""
        name = module.qualified(node)
        if name is None:
            return None
        key = (module.name, name)
        if key not in self._external_memo:
            self._external_memo[key] = self._through_reexports(name, module, 0)
        return self._external_memo[key]

    def _through_reexports(self, name: str, module: Module, depth: int) -> str:
        head, _, rest = name.partition(".")
        if depth > 6:
            return name
        if head not in module.imports and head not in module.scope.bindings and module.star_imports:
            for star in module.star_imports:
                owner = self.find_module(star, module)
                if owner is not None and head in owner.imports:
                    full = owner.imports[head] + (f".{rest}" if rest else "")
                    return self._through_reexports(full, owner, depth + 1)
                if owner is None and star.split(".")[0] in ("torch", "torchvision"):
                    if f"{star}.{head}" in _STAR_EXPORTS or star in ("torch.nn", "torch.optim", "torch.utils.data"):
                        return f"{star}.{name}"
                if owner is not None:
                    deeper = self._through_reexports(name, owner, depth + 1)
                    if deeper != name:
                        return deeper
        owner_name, _, last = name.rpartition(".")
        owner = self.find_module(owner_name, module) if owner_name else None
        if owner is not None and last in owner.imports and f"{owner.name}.{last}" not in self.definitions:
            return self._through_reexports(owner.imports[last], owner, depth + 1)
        return name

    def bases(self, module: Module, node: ast.ClassDef) -> Iterator[tuple[Module, ast.ClassDef]]:
        """The class and its project base classes, nearest first."""
        yield module, node
        for base in node.bases:
            found = self.definition(module.qualified(base), module)
            if found is not None and isinstance(found[1], ast.ClassDef) and found[1] is not node:
                yield from self.bases(found[0], found[1])

    def external_bases(self, module: Module, node: ast.ClassDef) -> set[str]:
        """Qualified names of the library classes that a project class derives from."""
        names: set[str] = set()
        for owner, cls in self.bases(module, node):
            for base in cls.bases:
                if self.definition(owner.qualified(base), owner) is None:
                    names.add(self.external_name(owner, base) or "")
        return names

    def family(self, module: Module, node: ast.ClassDef) -> set[ast.AST]:
        """The class, its bases and its subclasses."""
        if self._lines is None:
            self._lines = {}
            for other_module, other in list(self.definitions.values()):
                if isinstance(other, ast.ClassDef):
                    for _, base in self.bases(other_module, other):
                        self._lines.setdefault(base, set()).add(other)
        if node not in self._families:
            self._families[node] = {cls for _, cls in self.bases(module, node)} | self._lines.get(node, set())
        return self._families[node]

    def method(self, module: Module, node: ast.ClassDef, name: str) -> tuple[Module, ast.AST] | None:
        for owner, cls in self.bases(module, node):
            found = self.definitions.get(f"{owner.name}.{owner.scopes[cls].name}.{name}")
            if found is not None:
                return found
        return None

    def overrides(self, module: Module, node: ast.ClassDef, name: str) -> Iterator[tuple[Module, ast.AST]]:
        """The methods of a name that relatives of the class define, without abstract ones."""
        own = self.method(module, node, name)
        family = self.family(module, node)
        for owner, relative in list(self.definitions.values()):
            if relative in family and isinstance(relative, ast.ClassDef):
                found = self.definitions.get(f"{owner.name}.{owner.scopes[relative].name}.{name}")
                if found is not None and found != own and not _is_abstract(found[1]):
                    yield found

    # ---------------------------------------------------------------- calls
    def callee(self, module: Module, call: ast.Call) -> tuple[Module, ast.AST] | None:
        """The project's function, method or class that a call runs."""
        func = call.func
        direct = self.definition(module.qualified(func), module)
        if direct is not None:
            return direct
        if isinstance(func, ast.Attribute):
            if func.attr not in self.methods:
                return self._held(module, func)
            scope = module.scope_of.get(func, module.scope)
            if isinstance(func.value, ast.Name) and func.value.id == scope.self_name and scope.owner_class is not None:
                cls = scope.owner_class.node
                if isinstance(cls, ast.ClassDef):
                    own = self.method(module, cls, func.attr)
                    if own is not None and not _is_abstract(own[1]):
                        return own
                    found = next(self.overrides(module, cls, func.attr), own)
                    if found is not None:
                        return found
            if (
                isinstance(func.value, ast.Call)
                and dotted(func.value.func) == "super"
                and scope.owner_class is not None
            ):
                cls = scope.owner_class.node
                if isinstance(cls, ast.ClassDef):
                    for owner, base in list(self.bases(module, cls))[1:]:
                        found = self.method(owner, base, func.attr)
                        if found is not None:
                            return found
            for value in self.values(module, func.value):
                if value.kind == "instance" and isinstance(value.node, ast.Call) and value.module is not None:
                    cls_found = self.definition(value.module.qualified(value.node.func), value.module)
                    if cls_found is not None and isinstance(cls_found[1], ast.ClassDef):
                        found = self.method(cls_found[0], cls_found[1], func.attr)
                        if found is not None:
                            return found
        elif isinstance(func, ast.Name):
            for value in self.values(module, func):
                if value.kind in ("function", "class") and value.module is not None and value.node is not None:
                    return value.module, value.node
        return self._called_object(module, func) if "__call__" in self.methods else None

    def _called_object(self, module: Module, func: ast.AST) -> tuple[Module, ast.AST] | None:
        """The `__call__` of an object of the project's: `stopper = EarlyStopping()` and then `stopper(loss, model)`."""
        for value in self.values(module, func):
            if value.kind == "instance" and isinstance(value.node, ast.Call) and value.module is not None:
                cls = self.definition(value.module.qualified(value.node.func), value.module)
                if cls is not None and isinstance(cls[1], ast.ClassDef):
                    return self.method(cls[0], cls[1], "__call__")
        return None

    def _held(self, module: Module, func: ast.Attribute) -> tuple[Module, ast.AST] | None:
        """The function that an attribute holds: `self.step = step` and then `self.step(batch)`."""
        if func.attr not in self.attribute_writes:
            return None
        held = {(v.module, v.node) for v in self.values(module, func) if v.kind == "function"}
        only = next(iter(held)) if len(held) == 1 else (None, None)
        return (only[0], only[1]) if only[0] is not None and only[1] is not None else None

    def call_sites(self, function: ast.AST) -> list[tuple[Module, ast.Call]]:
        """All calls in the program that run this function (a class's call sites are its `__init__`'s)."""
        if self._call_sites is None:
            self._call_sites = {}
            missed = [one for one in self.calls if not self._add_site(*one)]
            for decorator, given in chosen.decorations(self):
                self._decorated.setdefault(decorator, []).append(given)
            self._forget()
            for module, call in missed:  # callbacks and entries of tables, now that it is known what is handed on
                if not self._add_site(module, call):
                    self._add_chosen(module, call)
            self._forget()
        return self._call_sites.get(function, [])

    def _forget(self) -> None:
        """Drop answers about parameters from before all calls were known."""
        self._memo.clear()
        self._partial.clear()

    def _add_site(self, module: Module, call: ast.Call) -> bool:
        assert self._call_sites is not None
        found = self.callee(module, call)
        if found is None:
            return False
        target = found[1]
        if isinstance(target, ast.ClassDef):
            init = self.method(found[0], target, "__init__")
            if init is not None:
                self._call_sites.setdefault(init[1], []).append((module, call))
        self._call_sites.setdefault(target, []).append((module, call))
        scope = module.scope_of.get(call, module.scope)
        owner = scope.owner_class.node if scope.owner_class is not None else None
        if isinstance(owner, ast.ClassDef) and isinstance(call.func, ast.Attribute):
            if isinstance(call.func.value, ast.Name) and call.func.value.id == scope.self_name:  # or a subclass's own
                for _, other in self.overrides(module, owner, call.func.attr):
                    if other is not target:
                        self._call_sites.setdefault(other, []).append((module, call))
        return True

    def _add_chosen(self, module: Module, call: ast.Call) -> None:
        """A call of something that is chosen by name, or of a partial function; and the making of a partial."""
        assert self._call_sites is not None
        inner = chosen.partial_of(module, call)
        if inner is not None:
            for value in self.values(module, inner):
                if value.kind == "function" and value.node is not None:
                    self._partials.setdefault(value.node, []).append((module, call))
            return
        if isinstance(call.func, ast.Subscript | ast.Call | ast.Name):
            for value in self.candidates(module, call.func):
                if value.kind in ("function", "class") and value.node is not None and value.module is not None:
                    target: ast.AST = value.node
                    if isinstance(target, ast.ClassDef):
                        init = self.method(value.module, target, "__init__")
                        target = init[1] if init is not None else target
                    self._call_sites.setdefault(target, []).append((module, call))
        if isinstance(call.func, ast.Name | ast.Attribute) and self._may_hold_function(call.func):
            for value in self.values(module, call.func):
                made = chosen.partial_of(value.module, value.node) if value.module is not None else None
                if made is not None and value.module is not None:
                    for function in self.values(value.module, made):
                        if function.kind == "function" and function.node is not None:
                            self._through.setdefault(function.node, []).append((module, call))

    def _may_hold_function(self, func: ast.Name | ast.Attribute) -> bool:
        return isinstance(func, ast.Name) or func.attr in self.attribute_writes

    def uses_of(self, function: ast.AST) -> list[tuple[Module, ast.AST]]:
        """Where a function is run: its calls, and where it is only named, as a callback is (`Engine(step)`, `partial(step)`)."""
        sites: list[tuple[Module, ast.AST]] = [*self.call_sites(function), *self._through.get(function, ())]
        if sites:
            return sites
        name = getattr(function, "name", None)
        for module in self.modules.values():
            for node in module.nodes:
                if function is node and isinstance(node, ast.Lambda):
                    sites.append((module, module.parents[node]))
                elif isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
                    if any(value.node is function for value in self.values(module, node)):
                        sites.append((module, node))
        return sites

    def class_of(self, value: Value) -> tuple[Module, ast.ClassDef] | None:
        """The project's class of an instance."""
        if value.kind != "instance" or not isinstance(value.node, ast.Call) or value.module is None:
            return None
        found = self.callee(value.module, value.node)
        return (found[0], found[1]) if found is not None and isinstance(found[1], ast.ClassDef) else None

    def candidates(self, module: Module, func: ast.AST) -> list[Value]:
        """What a function or class that is chosen by a name may be; empty where the table is not in sight."""
        return chosen.candidates(self, module, func)

    # ---------------------------------------------------------------- values
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

    def _values(self, module: Module, node: ast.AST) -> Iterator[Value]:
        if isinstance(node, ast.Constant):
            yield Value("constant", node, module)
        elif isinstance(node, ast.Name):
            yield from self._name(module, node)
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(module, node)
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
                yield _definition_value(definition)
                return
            for star in module.star_imports:
                owner = self.find_module(star, module)
                if owner is not None and node.id in owner.scope.bindings:
                    for binding in owner.scope.bindings[node.id]:
                        yield from self._binding(owner, owner.scope, binding)
                    return
            yield Value("unknown", node, module, node.id)
            return
        owner_scope, bindings = found
        for binding in bindings:
            yield from self._binding(module, owner_scope, binding)

    def bound(self, module: Module, scope: Scope, binding: Binding) -> Iterator[Value]:
        """What a binding of a scope gives its name."""
        return self._binding(module, scope, binding)

    def _binding(self, module: Module, scope: Scope, binding: Binding) -> Iterator[Value]:
        if binding.kind == "assign" and binding.value is not None:
            yield from self._unpack(module, binding.value, binding.path)
        elif binding.kind == "param":
            yield from self._parameter(module, scope, binding)
        elif binding.kind in ("def", "class"):
            yield Value("function" if binding.kind == "def" else "class", binding.node, module)
        elif binding.kind == "import":
            yield from self._imported(module, binding)
        elif binding.kind == "with" and binding.value is not None:
            yield from self.values(module, binding.value)
        elif binding.kind == "item" and binding.value is not None:
            yield from self._items(module, binding.value, binding.path)

    def _imported(self, module: Module, binding: Binding) -> Iterator[Value]:
        name = binding.target
        definition = self.definition(name, module)
        if definition is not None:
            yield _definition_value(definition)
            return
        head, _, last = name.rpartition(".")
        owner = self.find_module(head, module) if head else None
        if owner is not None and last in owner.scope.bindings and binding.node not in self._importing:
            self._importing.add(binding.node)  # modules may import a name from each other, in a circle
            try:
                found = [v for other in owner.scope.bindings[last] for v in self._binding(owner, owner.scope, other)]
            finally:
                self._importing.discard(binding.node)
            yield from found
            return
        yield Value("module", binding.node, module, name)

    def _unpack(self, module: Module, value: ast.AST, path: tuple[int, ...]) -> Iterator[Value]:
        if not path:
            yield from self.values(module, value)
            return
        if isinstance(value, ast.Tuple | ast.List) and path[0] < len(value.elts):
            yield from self._unpack(module, value.elts[path[0]], path[1:])
            return
        if isinstance(value, ast.Call):
            found = self.callee(module, value)
            if found is not None and isinstance(found[1], FunctionNode):
                yield from self._unpack_returned(*found, path)
                return
            if isinstance(value.func, ast.Attribute) and value.func.attr == "prepare" and path[0] < len(value.args):
                yield from self.values(module, value.args[path[0]])
                return
        for inner in self.values(module, value):
            if (
                inner.kind == "display"
                and inner.node is not value
                and inner.node is not None
                and inner.module is not None
            ):
                yield from self._unpack(inner.module, inner.node, path)
                return
            fields = list(chosen.named_fields(inner).values())
            if path[0] < len(fields) and inner.module is not None:
                yield from self._unpack(inner.module, fields[path[0]], path[1:])
                return
        yield Value("unknown", value, module, "element")

    def _unpack_returned(self, module: Module, function: ast.AST, path: tuple[int, ...]) -> Iterator[Value]:
        """Parts of what a function gives back; nothing new comes of a function that gives back what it gives back."""
        key = (function, path)
        if key in self._unpacking:
            self._lowest = min(self._lowest, self._unpacking[key])  # what is asked inside is not answered in full
            return
        self._unpacking[key] = len(self._active) - 1
        try:
            for owner, returned in self.returns(module, function):
                if isinstance(returned, ast.Name):
                    for inner in self.values(owner, returned):
                        if inner.kind == "display" and inner.node is not None and inner.module is not None:
                            yield from self._unpack(inner.module, inner.node, path)
                elif returned is not None:
                    yield from self._unpack(owner, returned, path)
        finally:
            del self._unpacking[key]

    def _items(self, module: Module, iterated: ast.AST, path: tuple[int, ...]) -> Iterator[Value]:
        """What a loop variable may be, for displays of objects such as `for net in (netG, netD)`."""
        if isinstance(iterated, ast.Call) and dotted(iterated.func) == "enumerate" and iterated.args:
            if path and path[0] == 1:
                yield from self._items(module, iterated.args[0], path[1:])
            return
        if isinstance(iterated, ast.Call) and dotted(iterated.func) == "zip" and path and path[0] < len(iterated.args):
            yield from self._items(module, iterated.args[path[0]], path[1:])
            return
        if isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Attribute):
            if iterated.func.attr == "values":
                yield from self._elements(module, iterated.func.value, None)
                return
            if iterated.func.attr == "items":
                if path and path[0] == 1:
                    yield from self._elements(module, iterated.func.value, None)
                return
        if path:
            yield Value("unknown", iterated, module, "element")
            return
        yield from self._elements(module, iterated, None)

    def _is_dict(self, value: Value) -> bool:
        """True for `dict(...)` and for objects of a subclass of it."""
        if value.kind == "call":
            return value.name in ("dict", "collections.OrderedDict", "easydict.EasyDict", "munch.Munch")
        found = self.class_of(value)
        return found is not None and not self.external_bases(*found).isdisjoint(_DICTS)

    def elements(self, module: Module, container: ast.AST) -> Iterator[Value]:
        """Everything that a list, tuple or dictionary holds."""
        return self._elements(module, container, None)

    def _elements(self, module: Module, container: ast.AST, key: object) -> Iterator[Value]:
        """Elements of a list, tuple or dictionary; with a constant key only the one it names."""
        matched = False
        for value in self.values(module, container):
            owner = value.module
            if owner is not None and value.is_call and isinstance(value.node, ast.Call):
                for keyword in value.node.keywords if self._is_dict(value) else ():
                    if keyword.arg is not None and (key is None or key == keyword.arg):
                        matched = True
                        yield from self.values(owner, keyword.value)
            if value.kind != "display" or owner is None:
                continue
            if isinstance(value.node, ast.Dict):
                for k, v in zip(value.node.keys, value.node.values, strict=True):
                    constant = k.value if isinstance(k, ast.Constant) else None
                    if key is None or constant is None or constant == key:
                        matched = True
                        yield from self.values(owner, v)
            elif isinstance(value.node, ast.List | ast.Tuple):
                for position, element in enumerate(value.node.elts):
                    if key is None or not isinstance(key, int) or key in (position, position - len(value.node.elts)):
                        matched = True
                        yield from self.values(owner, element)
            elif isinstance(value.node, ast.DictComp):
                matched = True
                yield from self.values(owner, value.node.value)
            elif isinstance(value.node, ast.ListComp | ast.GeneratorExp):
                matched = True
                yield from self.values(owner, value.node.elt)
        for owner, write in self._subscript_writes(module, container):
            matched = True
            yield from self.values(owner, write)
        if not matched:
            yield Value("unknown", container, module, "element")

    def _subscript_writes(self, module: Module, container: ast.AST) -> Iterator[tuple[Module, ast.AST]]:
        name = dotted(container)
        if name is None:
            return
        if module not in self._filled:
            self._filled[module] = _what_fills(module)
        yield from ((module, value) for value in self._filled[module].get(name, ()))

    def _subscript(self, module: Module, node: ast.Subscript) -> Iterator[Value]:
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        yield from self._elements(module, node.value, key)

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
        partials, decorated = self._partials.get(function, ()), self._decorated.get(function, ())
        for caller, call in partials:
            given = argument(call, binding.target, binding.path[0] + 1 if binding.path else None)
            if given is not None:
                yield from self.values(caller, given)
        if decorated and binding.path == (1 if bound else 0,):
            yield from map(_definition_value, decorated)
        if not (sites or partials or decorated) and binding.value is None:
            yield Value("unknown", binding.node, module, f"parameter {binding.target}")

    def _attribute(self, module: Module, node: ast.Attribute) -> Iterator[Value]:
        qualified = module.qualified(node)
        definition = self.definition(qualified, module)
        if definition is not None:
            yield _definition_value(definition)
            return
        if node.attr == "module":
            yield from self.values(module, node.value)  # still the same network
            return
        base_name = dotted(node.value)
        if base_name is not None:
            imported = self.find_module(module.qualified(node.value) or "", module)
            if imported is not None and node.attr in imported.scope.bindings:
                for binding in imported.scope.bindings[node.attr]:
                    yield from self._binding(imported, imported.scope, binding)
                return
        writes = list(self.writes(module, node))
        for owner, _, value, path in writes:
            if value is not None:
                yield from self._unpack(owner, value, path)
        if writes:
            return
        owners = self.values(module, node.value)
        named = [(v.module, f[node.attr]) for v in owners if v.module and node.attr in (f := chosen.named_fields(v))]
        for named_module, given in named:
            yield from self.values(named_module, given)
        if any(self._is_dict(value) for value in owners):
            yield from self._elements(module, node.value, node.attr)
        elif not named:
            yield Value("unknown", node, module, qualified or node.attr)

    def writes(
        self, module: Module, node: ast.Attribute
    ) -> Iterator[tuple[Module, ast.Attribute, ast.AST | None, tuple[int, ...]]]:
        """Assignments to the attribute of the same object: by class for `self`, else by the same spelling or class."""
        family = self._object_family(module, node.value)
        spelled = dotted(node.value)
        for owner, target, value, path in self.attribute_writes.get(node.attr, ()):
            other_family = self._object_family(owner, target.value)
            if family and other_family:
                if family & other_family:
                    yield owner, target, value, path
            elif spelled is not None and dotted(target.value) == spelled and not (family or other_family):
                yield owner, target, value, path

    def _object_family(self, module: Module, node: ast.AST) -> set[ast.AST]:
        """Classes that the object may belong to (empty when unknown)."""
        scope = module.scope_of.get(node, module.scope)
        if isinstance(node, ast.Name) and node.id == scope.self_name and scope.owner_class is not None:
            cls = scope.owner_class.node
            return self.family(module, cls) if isinstance(cls, ast.ClassDef) else set()
        family: set[ast.AST] = set()
        for value in self.values(module, node):
            if value.kind == "instance" and isinstance(value.node, ast.Call) and value.module is not None:
                found = self.definition(value.module.qualified(value.node.func), value.module)
                if found is not None and isinstance(found[1], ast.ClassDef):
                    family |= self.family(found[0], found[1])
        return family

    def _call(self, module: Module, node: ast.Call) -> Iterator[Value]:
        func = node.func
        if (
            isinstance(func, ast.Attribute)
            and func.attr in SAME_OBJECT_METHODS
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


def _what_fills(module: Module) -> dict[str, list[ast.AST]]:
    """What a module puts into containers one by one, by the container's name: `nets[0] = net`, `nets.append(net)`."""
    found: dict[str, list[ast.AST]] = {}
    for node in module.nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and (name := dotted(target.value)) is not None:
                    found.setdefault(name, []).append(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
            if node.args and (name := dotted(node.func.value)) is not None:
                found.setdefault(name, []).append(node.args[0])
    return found


def _is_abstract(function: ast.AST) -> bool:
    """A method that only says that there must be one: nothing but a docstring and `pass`, or a `raise` before all else."""
    body = getattr(function, "body", None)
    if not isinstance(body, list):
        return False
    said = [s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    return all(isinstance(s, ast.Pass) for s in said) or isinstance(said[0], ast.Raise)


def _definition_value(definition: tuple[Module, ast.AST]) -> Value:
    module, node = definition
    return Value("class" if isinstance(node, ast.ClassDef) else "function", node, module)


_DICTS = frozenset({"dict", "collections.OrderedDict", "collections.UserDict"})
_STAR_EXPORTS = frozenset({"torch.nn.Module", "torch.nn.DataParallel", "torch.nn.parallel.DataParallel"})
