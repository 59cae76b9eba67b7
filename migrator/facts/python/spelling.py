"""How a module can spell something: a name that a library offers, a new name, its own name for its device."""

from __future__ import annotations

import ast

from migrator.facts.python.syntax import Module, Span


def name_for(module: Module, wanted: str, qualified: str) -> tuple[str, str | None]:
    """How a module can spell a library name: (expression, import to add or None).

    A name that the module binds to something else anywhere, also locally, is not used.
    """
    for name, target in module.imports.items():
        if target == qualified and module.always_imports(name) and _only_import(module, name):
            return name, None
    if not any(wanted in scope.bindings for scope in module.scopes.values()):
        head, _, last = qualified.rpartition(".")
        return wanted, f"import {qualified} as {wanted}" if last != wanted else f"from {head} import {last}"
    return qualified, f"import {qualified}"


def _only_import(module: Module, name: str) -> bool:
    return all(binding.kind == "import" for scope in module.scopes.values() for binding in scope.bindings.get(name, ()))


def free_name(wanted: str, module: Module) -> str:
    """The wanted name, or one like it that the module binds nowhere."""
    taken = {name for scope in module.scopes.values() for name in scope.bindings}
    return next(name for name in (wanted, *(f"{wanted}_{i}" for i in range(2, 1000))) if name not in taken)


def device_name(module: Module, at: Span) -> str | None:
    """The program's own variable for its device at a place, when it is bound to a `torch.device` before it."""
    node = module.expression_at(at)
    found = module.lookup("device", module.scope_of.get(node, module.scope))
    if found is None:
        return None
    values = [b.value for b in found[1] if b.kind == "assign"]
    if len(values) != len(found[1]) or not values:
        return None
    calls = [v for v in values if isinstance(v, ast.Call) and module.qualified(v.func) == "torch.device"]
    before = all(module.span(v).start < at.start for v in calls) or found[0] is module.scope
    return "device" if len(calls) == len(values) and before else None
