"""Which definitions belong to another program of the same project.

In: the modules of a program, entry first.  Out: the top-level functions and classes that only another module's `__main__`
block leads to.  They run when that module is the entry, so they are converted then and left alone now.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module


def is_main_guard(node: ast.AST) -> bool:
    """`if __name__ == "__main__":` in either order."""
    if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare):
        return False
    sides = [node.test.left, *node.test.comparators]
    names = {dotted(side) for side in sides}
    return "__name__" in names and any(isinstance(s, ast.Constant) and s.value == "__main__" for s in sides)


def other_programs(modules: Iterable[Module], entry: Module) -> frozenset[ast.AST]:
    """Definitions that only the `__main__` blocks of modules other than the entry lead to."""
    owners: dict[str, list[tuple[str, ast.AST]]] = {}
    uses: dict[ast.AST | None, set[tuple[str, str]]] = {None: set()}
    for module in modules:
        is_script = module is not entry and any(is_main_guard(s) for s in module.tree.body)
        for statement in module.tree.body:
            if is_script and is_main_guard(statement):
                continue
            owner: ast.AST | None = None
            if is_script and isinstance(statement, ast.FunctionDef | ast.ClassDef):
                owner = statement
                owners.setdefault(statement.name, []).append((module.path, statement))
            uses.setdefault(owner, set()).update(_names(module, statement))
    live: set[ast.AST] = set()
    queue = list(uses[None])
    while queue:
        path, name = queue.pop()
        for home, owner in owners.get(name, ()):
            if owner not in live and path in ("", home):
                live.add(owner)
                queue.extend(uses[owner])
    return frozenset(node for rows in owners.values() for _, node in rows if node not in live)


def _names(module: Module, statement: ast.stmt) -> Iterator[tuple[str, str]]:
    """Every name that the statement might call something by, also in strings (`getattr`, `eval`).

    With each goes the path of the module whose name it must be, or the empty text for any.
    """
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            bindings = module.scope.bindings.get(node.id, ())
            own = bool(bindings) and all(binding.kind != "import" for binding in bindings)
            yield module.path if own else "", node.id
        elif isinstance(node, ast.Attribute):
            yield "", node.attr
        elif isinstance(node, ast.alias):
            yield "", node.name.rpartition(".")[2]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            yield "", node.value


def unreached(modules: Iterable[Module], entry: Module) -> frozenset[ast.AST]:
    """Top-level functions and classes that nothing which runs names; none where names may be made up at run time."""
    modules = list(modules)
    if any(_looks_up(module, node) for module in modules for node in module.nodes):
        return frozenset()
    named: dict[str, list[tuple[str, ast.AST]]] = {}
    uses: dict[ast.AST | None, set[tuple[str, str]]] = {None: set()}
    for module in modules:
        for statement in module.tree.body:
            owner: ast.AST | None = None
            if isinstance(statement, ast.FunctionDef | ast.ClassDef) and not statement.decorator_list:
                owner = statement
                named.setdefault(statement.name, []).append((module.path, statement))
            elif module is not entry and is_main_guard(statement):
                continue
            uses.setdefault(owner, set()).update(_names(module, statement))
    live: set[ast.AST] = set()
    queue = list(uses[None])
    while queue:
        path, name = queue.pop()
        for home, owner in named.get(name, ()):
            if owner not in live and path in ("", home):
                live.add(owner)
                queue.extend(uses[owner])
    return frozenset(node for rows in named.values() for _, node in rows if node not in live)


def _looks_up(module: Module, node: ast.AST) -> bool:
    """A place where a definition may be found by a name that is nowhere in the text."""
    if isinstance(node, ast.Attribute) and node.attr == "__dict__":
        parent = module.parents.get(node)
        named = isinstance(parent, ast.Subscript) and isinstance(parent.slice, ast.Constant)
        return not named and not _is_flag(node.value)
    if isinstance(node, ast.Attribute):
        return node.attr in ("import_module", "__subclasses__")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == "getattr" and len(node.args) > 1:
            return not isinstance(node.args[1], ast.Constant) and not _is_flag(node.args[0])
        return node.func.id in ("eval", "globals", "locals", "__import__")
    return isinstance(node, ast.Name) and node.id == "import_module"


def _is_flag(node: ast.expr) -> bool:
    """`getattr(args, name)`, `getattr(self, name)`: an object's attribute, not a module's."""
    return (dotted(node) or "").rpartition(".")[2] in ("self", "args", "opt", "cfg", "config")
