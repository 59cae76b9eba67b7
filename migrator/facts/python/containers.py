"""What is in tuples, lists and dictionaries of a program.

In: a `Resolver`.  Out: the values of their elements: by unpacking, in a loop, by a constant key, and what is put in one by one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrator.facts.python import chosen
from migrator.facts.python.answers import Answers
from migrator.facts.python.nodes import FunctionNode, dotted
from migrator.facts.python.syntax import Module
from migrator.facts.python.values import Value

_DICTS = frozenset({"dict", "collections.OrderedDict", "collections.UserDict"})


class Containers:
    """Elements of containers."""

    def __init__(self, resolver: Answers):
        self.resolver = resolver
        self._unpacking: dict[tuple[ast.AST, tuple[int, ...]], int] = {}
        self._filled: dict[Module, dict[str, list[ast.AST]]] = {}

    def unpack(self, module: Module, value: ast.AST, path: tuple[int, ...]) -> Iterator[Value]:
        if not path:
            yield from self.resolver.values(module, value)
            return
        if isinstance(value, ast.Tuple | ast.List) and path[0] < len(value.elts):
            yield from self.unpack(module, value.elts[path[0]], path[1:])
            return
        if isinstance(value, ast.Call):
            found = self.resolver.callee(module, value)
            if found is not None and isinstance(found[1], FunctionNode):
                yield from self._unpack_returned(*found, path)
                return
            if isinstance(value.func, ast.Attribute) and value.func.attr == "prepare" and path[0] < len(value.args):
                yield from self.resolver.values(module, value.args[path[0]])
                return
        for inner in self.resolver.values(module, value):
            if (
                inner.kind == "display"
                and inner.node is not value
                and inner.node is not None
                and inner.module is not None
            ):
                yield from self.unpack(inner.module, inner.node, path)
                return
            fields = list(chosen.named_fields(inner).values())
            if path[0] < len(fields) and inner.module is not None:
                yield from self.unpack(inner.module, fields[path[0]], path[1:])
                return
        yield Value("unknown", value, module, "element")

    def _unpack_returned(self, module: Module, function: ast.AST, path: tuple[int, ...]) -> Iterator[Value]:
        """Parts of what a function gives back; nothing new comes of a function that gives back what it gives back."""
        key = (function, path)
        if key in self._unpacking:
            self.resolver.cut_at(self._unpacking[key])  # what is asked inside is not answered in full
            return
        self._unpacking[key] = self.resolver.depth
        try:
            for owner, returned in self.resolver.returns(module, function):
                if isinstance(returned, ast.Name):
                    for inner in self.resolver.values(owner, returned):
                        if inner.kind == "display" and inner.node is not None and inner.module is not None:
                            yield from self.unpack(inner.module, inner.node, path)
                elif returned is not None:
                    yield from self.unpack(owner, returned, path)
        finally:
            del self._unpacking[key]

    def items(self, module: Module, iterated: ast.AST, path: tuple[int, ...]) -> Iterator[Value]:
        """What a loop variable may be, for displays of objects such as `for net in (netG, netD)`."""
        if isinstance(iterated, ast.Call) and dotted(iterated.func) == "enumerate" and iterated.args:
            if path and path[0] == 1:
                yield from self.items(module, iterated.args[0], path[1:])
            return
        if isinstance(iterated, ast.Call) and dotted(iterated.func) == "zip" and path and path[0] < len(iterated.args):
            yield from self.items(module, iterated.args[path[0]], path[1:])
            return
        if isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Attribute):
            if iterated.func.attr == "values":
                yield from self.elements(module, iterated.func.value, None)
                return
            if iterated.func.attr == "items":
                if path and path[0] == 1:
                    yield from self.elements(module, iterated.func.value, None)
                return
        if path:
            yield Value("unknown", iterated, module, "element")
            return
        yield from self.elements(module, iterated, None)

    def is_dict(self, value: Value) -> bool:
        """True for `dict(...)` and for objects of a subclass of it."""
        if value.kind == "call":
            return value.name in ("dict", "collections.OrderedDict", "easydict.EasyDict", "munch.Munch")
        found = self.resolver.class_of(value)
        return found is not None and not self.resolver.external_bases(*found).isdisjoint(_DICTS)

    def elements(self, module: Module, container: ast.AST, key: object) -> Iterator[Value]:
        """Elements of a list, tuple or dictionary; with a constant key only the one it names."""
        matched = False
        for value in self.resolver.values(module, container):
            owner = value.module
            if owner is not None and value.is_call and isinstance(value.node, ast.Call):
                for keyword in value.node.keywords if self.is_dict(value) else ():
                    if keyword.arg is not None and (key is None or key == keyword.arg):
                        matched = True
                        yield from self.resolver.values(owner, keyword.value)
            if value.kind != "display" or owner is None:
                continue
            if isinstance(value.node, ast.Dict):
                for k, v in zip(value.node.keys, value.node.values, strict=True):
                    constant = k.value if isinstance(k, ast.Constant) else None
                    if key is None or constant is None or constant == key:
                        matched = True
                        yield from self.resolver.values(owner, v)
            elif isinstance(value.node, ast.List | ast.Tuple):
                for position, element in enumerate(value.node.elts):
                    if key is None or not isinstance(key, int) or key in (position, position - len(value.node.elts)):
                        matched = True
                        yield from self.resolver.values(owner, element)
            elif isinstance(value.node, ast.DictComp):
                matched = True
                yield from self.resolver.values(owner, value.node.value)
            elif isinstance(value.node, ast.ListComp | ast.GeneratorExp):
                matched = True
                yield from self.resolver.values(owner, value.node.elt)
        for owner, write in self._subscript_writes(module, container):
            matched = True
            yield from self.resolver.values(owner, write)
        if not matched:
            yield Value("unknown", container, module, "element")

    def _subscript_writes(self, module: Module, container: ast.AST) -> Iterator[tuple[Module, ast.AST]]:
        name = dotted(container)
        if name is None:
            return
        if module not in self._filled:
            self._filled[module] = _what_fills(module)
        yield from ((module, value) for value in self._filled[module].get(name, ()))


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
