"""Imports that nothing uses any more, once the edits of a module are made.

In: a module, its edits and the text that they make of it.  Out: more edits, under the rules that took the last uses away.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from migrator.edits import InsertBefore, Labelled, Remove, Replace
from migrator.facts.python.syntax import Module
from migrator.load.project import Project


def unused_imports(project: Project, module: Module, edits: Sequence[Labelled], after: str) -> list[Labelled]:
    """Edits that take out the imported names whose uses are all gone, unless other files may take them from this one."""
    imports = [s for s in module.tree.body if isinstance(s, ast.Import | ast.ImportFrom) and _is_plain(module, s)]
    bound = {name for statement in imports for name in _names(statement)}
    uses = [(n.id, module.span(n)) for n in module.nodes if isinstance(n, ast.Name) and n.id in bound]
    takes = [one for one in edits if isinstance(one.edit, Replace | Remove)]
    taken = {name: one for name, at in uses for one in takes if one.edit.at.contains(at)}
    going = {one.edit.at for one in edits if isinstance(one.edit, Remove)}
    imports = [s for s in imports if module.span(s) not in going and any(name in taken for name in _names(s))]
    if not imports:
        return []
    try:
        tree = ast.parse(after)
    except SyntaxError:  # a notebook's cells, or an older Python: what cannot be read keeps its imports
        return []
    left = _used(tree)
    found: list[Labelled] = []
    for statement in imports:
        names = _names(statement)
        gone = [name for name in names if name in taken and name not in left and _is_private(project, module, name)]
        if gone:
            found += _without(module, statement, names, gone, taken[gone[0]])
    return found


def _without(
    module: Module, statement: ast.Import | ast.ImportFrom, names: dict[str, str], gone: list[str], one: Labelled
) -> Iterator[Labelled]:
    at = module.span(statement)
    yield replace(one, edit=Remove(at))
    kept = ", ".join(text for name, text in names.items() if name not in gone)
    if kept:
        head, _, _ = module.segment(statement).partition("import ")
        yield replace(one, edit=InsertBefore(at, f"{head}import {kept}\n"))


def _names(statement: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """The names that a statement binds, with how it spells them; none for what may be imported for more than its name."""
    if isinstance(statement, ast.Import) and any("." in alias.name for alias in statement.names):
        return {}
    return {alias.asname or alias.name: ast.unparse(alias) for alias in statement.names}


def _is_plain(module: Module, statement: ast.stmt) -> bool:
    """True for one line of its own without a comment in it or right above it."""
    at = module.span(statement)
    above = module.line_text(at.line - 1).strip() if at.line > 1 else ""
    return module.line_text(at.line).strip() == module.segment(statement) and not above.startswith("#")


def _is_private(project: Project, module: Module, name: str) -> bool:
    """True for a name of another library that no file of the project takes from this one."""
    made = module.imports.get(name, "")
    if any(made == other or made.startswith(f"{other}.") for other in project.modules):
        return False
    tail = module.name.rpartition(".")[2]
    others = [other for other in project.modules.values() if other is not module]
    return not any(
        any(taken.endswith(f"{tail}.{name}") for taken in other.imports.values())
        or any(starred.rpartition(".")[2] == tail for starred in other.star_imports)
        for other in others
    )


def _used(tree: ast.Module) -> set[str]:
    """Names that are used, also in annotations and lists that are texts."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    texts = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return names | {word for text in texts if len(text) < 100 for word in text.replace(".", " ").split()}
