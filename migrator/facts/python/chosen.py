"""What is called without being named: entries of tables, attributes by name, evaluated text, partial functions, decorators.

In: a `Resolver` and an expression.  Out: the functions and classes that it may be; nothing where the table is not in sight.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrator.facts.python.answers import Answers
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module
from migrator.facts.python.values import Value

_CALLABLE = ("class", "function", "module")


def candidates(resolver: Answers, module: Module, func: ast.AST) -> list[Value]:
    """What `TABLE[name]`, `getattr(module, name)` and `eval("module." + name)` may be, also through a variable.

    A name of a library stands for itself.
    """
    if isinstance(func, ast.Subscript):
        entries = [v for v in resolver.values(module, func) if _is_callable(v)]
        return entries or list(_members(resolver, module, func.value))
    if isinstance(func, ast.Call) and dotted(func.func) == "getattr" and len(func.args) > 1:
        return list(_members(resolver, module, func.args[0]))
    if isinstance(func, ast.Call) and dotted(func.func) == "eval" and func.args:
        return list(_evaluated(resolver, module, func.args[0]))
    if isinstance(func, ast.Call) and isinstance(func.func, ast.Attribute) and func.func.attr in ("get", "pop"):
        return [v for v in resolver.elements(module, func.func.value) if _is_callable(v)]
    if isinstance(func, ast.Name):
        found = module.lookup(func.id, module.scope_of.get(func, module.scope))
        values = [b.value for b in found[1] if b.kind == "assign" and b.value is not None] if found else []
        known = [v for one in values if not isinstance(one, ast.Name) for v in candidates(resolver, module, one)]
        return known or [v for v in resolver.values(module, func) if values and _is_callable(v)]
    return []


def _is_callable(value: Value) -> bool:
    library = value.kind == "unknown" and isinstance(value.node, ast.Attribute) and "." in value.name
    return value.kind in _CALLABLE or library


def _members(resolver: Answers, module: Module, owner: ast.AST) -> Iterator[Value]:
    """Functions and classes of a module, also as `module.__dict__`; a library is one value."""
    if isinstance(owner, ast.Attribute) and owner.attr == "__dict__":
        owner = owner.value
    name = module.qualified(owner)
    if name is None:
        return
    found = resolver.find_module(name, module)
    if found is not None:
        yield from _public(resolver, found, set())
    elif name.split(".")[0] in {target.split(".")[0] for target in module.imports.values()}:
        yield Value("module", owner, module, name)


def _public(resolver: Answers, module: Module, seen: set[str]) -> Iterator[Value]:
    """Functions and classes that a module defines or imports, also by a star."""
    if module.name in seen:
        return
    seen.add(module.name)
    for bindings in module.scope.bindings.values():
        values = (v for b in bindings if b.kind != "assign" for v in resolver.bound(module, module.scope, b))
        yield from (v for v in values if v.kind in ("function", "class"))
    for star in module.star_imports:
        owner = resolver.find_module(star, module)
        if owner is not None:
            yield from _public(resolver, owner, seen)


def _evaluated(resolver: Answers, module: Module, text: ast.AST) -> Iterator[Value]:
    """What an evaluated text may name: definitions of a last name that is written out, or members of a module."""
    found = [n for n in ast.walk(text) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    parts = [str(n.value) for n in sorted(found, key=lambda n: (n.lineno, n.col_offset))]
    head = parts[0].partition(".")[0] if parts else ""
    if head not in module.imports:
        return
    last = parts[-1].rpartition(".")[2].partition("(")[0]
    known = [row for name, row in resolver.definitions.items() if last and name.rpartition(".")[2] == last]
    for owner, node in known:
        yield Value("class" if isinstance(node, ast.ClassDef) else "function", node, owner)
    if not known:
        owner_module = resolver.find_module(module.imports[head], module)
        if owner_module is not None:
            yield from _public(resolver, owner_module, set())
        else:
            yield Value("module", text, module, module.imports[head])


def named_fields(value: Value) -> dict[str, ast.expr]:
    """What a `collections.namedtuple` is made of, by field in their order; empty for anything else."""
    call, module = value.node, value.module
    if value.kind != "call" or not isinstance(call, ast.Call) or module is None or not isinstance(call.func, ast.Name):
        return {}
    found = module.lookup(call.func.id, module.scope_of.get(call.func, module.scope))
    made = found[1][0].value if found else None
    if not isinstance(made, ast.Call) or module.qualified(made.func) != "collections.namedtuple" or len(made.args) < 2:
        return {}
    told = made.args[1]
    texts = told.elts if isinstance(told, ast.List | ast.Tuple) else [told]
    words = [str(t.value) for t in texts if isinstance(t, ast.Constant)]
    names = " ".join(words).replace(",", " ").split()
    given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg in names}
    given |= dict(zip(names, call.args, strict=False))
    return {name: given[name] for name in names if name in given} if len(given) == len(names) else {}


def partial_of(module: Module, call: ast.AST | None) -> ast.expr | None:
    """The function that `functools.partial(function, ...)` is of."""
    if isinstance(call, ast.Call) and call.args and module.qualified(call.func) in ("functools.partial", "partial"):
        return call.args[0]
    return None


def decorations(resolver: Answers) -> Iterator[tuple[ast.AST, tuple[Module, ast.AST]]]:
    """Pairs of a decorator (the function that takes the definition) and what it decorates."""
    for module, node in list(resolver.definitions.values()):
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for decorator in node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else ast.Call(decorator, [], [])
            found = resolver.callee(module, call)
            if found is None:
                continue
            if isinstance(decorator, ast.Call):
                for owner, returned in resolver.returns(*found):
                    for value in resolver.values(owner, returned):
                        if value.kind == "function" and value.node is not None:
                            yield value.node, (module, node)
            else:
                yield found[1], (module, node)
