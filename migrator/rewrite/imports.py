"""Add imports where a careful person would: beside their kin, once, and never above a leading docstring or `try`.

In: a module and the import lines that fixes ask for.  Out: insertions after existing import statements.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from dataclasses import replace

from migrator.edits import AddImport, InsertAfter, InsertBefore, Labelled
from migrator.facts.python.syntax import Module, Span

_WIDTH = 100


def is_imported(module: Module, line: str) -> bool:
    """True when the module's top level already has every name of an import line."""
    node = ast.parse(line).body[0]
    if isinstance(node, ast.Import):
        alias = node.names[0]
        return module.imports.get(alias.asname or alias.name.split(".")[0]) == (
            alias.name if alias.asname else alias.name.split(".")[0]
        ) and module.always_imports(alias.asname or alias.name.split(".")[0])
    assert isinstance(node, ast.ImportFrom)
    return all(
        module.imports.get(a.asname or a.name) == f"{node.module}.{a.name}"
        and module.always_imports(a.asname or a.name)
        for a in node.names
    )


def import_edits(
    module: Module, wanted: list[Labelled], own: frozenset[str] = frozenset(), above: Span | None = None
) -> list[Labelled]:
    """Insertions for the import lines that are missing, each after the last leading import of the same kind.

    `own` are the names under which the project's modules and packages are imported; `above` is a statement before which all
    of them are needed, an import itself perhaps.
    """
    lines: dict[str, Labelled] = {}
    for one in wanted:
        if isinstance(one.edit, AddImport) and not _is_there(module, one.edit, above):
            lines.setdefault(one.edit.text, one)
    if not lines:
        return []
    lines = {text: next(one for line, one in lines.items() if line in parts) for text, parts in joined(lines).items()}
    leading = [s for s in leading_imports(module) if above is None or module.span(s).start < above.start]
    edits: list[Labelled] = []
    for text, one in sorted(lines.items(), key=lambda item: (_kind(item[0]), item[0].startswith("from"), item[0])):
        anchor, before = _anchor(leading, text, own)
        text = _wrapped(text)
        if anchor is not None:
            group = "\n" if before and _kind(text) == 0 and _head(anchor) not in sys.stdlib_module_names else ""
            insert = InsertBefore if before else InsertAfter
            edits.append(replace(one, edit=insert(module.span(anchor), text + "\n" + group)))
        else:
            first = _first_statement(module)
            if isinstance(first, ast.Expr | ast.ImportFrom) and first is module.tree.body[0]:
                edits.append(replace(one, edit=InsertAfter(module.span(first), text + "\n")))
            else:
                defines = isinstance(first, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                below = "\n\n" if defines else "" if isinstance(first, ast.Import | ast.ImportFrom) else "\n"
                edits.append(replace(one, edit=InsertBefore(module.span(first), text + "\n" + below)))
    return edits


def _is_there(module: Module, edit: AddImport, above: Span | None) -> bool:
    """True when the module imports the line's names above the place that needs them, at the earliest `above`."""
    if not is_imported(module, edit.text):
        return False
    inner = any(
        module.span(s).start < edit.at.start < module.span(s).end
        for s in module.tree.body
        if isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    )
    if inner:  # what a function uses must be there when it is called
        return True
    needed = edit.at.start if above is None else max(edit.at.start, above.start)
    node = ast.parse(edit.text).body[0]
    assert isinstance(node, ast.Import | ast.ImportFrom)
    names = [alias.asname or alias.name.split(".")[0] for alias in node.names]
    return all(module.always_imports(name, needed) for name in names)


def joined(lines: Iterable[str]) -> dict[str, list[str]]:
    """Import lines of which those from one module are one, each with the lines that it is made of."""
    found: dict[str, list[str]] = {}
    for line in lines:
        head, _, _ = line.partition(" import ")
        found.setdefault(head if line.startswith("from ") else line, []).append(line)
    names = {head: sorted(line.partition(" import ")[2] for line in parts) for head, parts in found.items()}
    return {
        f"{head} import {', '.join(names[head])}" if len(parts) > 1 else parts[0]: parts
        for head, parts in found.items()
    }


def _wrapped(text: str) -> str:
    """A long line with its names in parentheses, as formatters break it."""
    if len(text) <= _WIDTH:
        return text
    head, _, names = text.partition(" import ")
    within = f"    {names}\n" if len(names) + 4 <= _WIDTH else "".join(f"    {name},\n" for name in names.split(", "))
    return f"{head} import (\n{within})"


def _kind(text: str) -> int:
    """0 standard library, 1 torch and accelerate, 2 the project."""
    node = ast.parse(text).body[0]
    name = node.names[0].name if isinstance(node, ast.Import) else getattr(node, "module", "") or ""
    head = name.split(".")[0]
    if head in ("torch", "accelerate"):
        return 1
    return 0 if head in sys.stdlib_module_names else 2


def leading_imports(module: Module) -> list[ast.stmt]:
    """Top-level imports before the first definition or executable statement (simple assignments may stand between)."""
    found: list[ast.stmt] = []
    for statement in module.tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            if not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
                found.append(statement)
        elif isinstance(
            statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.For | ast.While | ast.With
        ):
            break
    return found


def _anchor(leading: list[ast.stmt], text: str, own: frozenset[str]) -> tuple[ast.stmt | None, bool]:
    """The statement beside which the line belongs, and whether it belongs above it."""
    if not leading:
        return None, False
    wanted = ast.parse(text).body[0]
    kind = _kind(text)
    if kind == 2:
        return leading[-1], False
    kin = [s for s in leading if (_head(s) == "torch" if kind == 1 else _head(s) in _STANDARD)]
    alike = [s for s in kin if type(s) is type(wanted)]
    if not kin:
        if kind == 0:
            return leading[0], True
        foreign = [s for s in leading if _head(s) not in ("", *own)]
        return (foreign[-1], False) if foreign else (leading[0], True)
    if not alike:
        return (kin[0], True) if isinstance(wanted, ast.Import) else (kin[-1], False)
    names = [_name(s) for s in alike]
    smaller = [s for s in alike if _name(s) <= _name(wanted)]
    if names != sorted(names):  # no order to keep
        return (alike[0] if kind == 1 and isinstance(wanted, ast.Import) else alike[-1]), False
    return (smaller[-1], False) if smaller else (alike[0], True)


def _name(statement: ast.stmt) -> str:
    """What an import statement is sorted by."""
    if isinstance(statement, ast.Import):
        return statement.names[0].name
    return getattr(statement, "module", "") or ""


def _head(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Import):
        return statement.names[0].name.split(".")[0]
    assert isinstance(statement, ast.ImportFrom)
    return "" if statement.level else (statement.module or "").split(".")[0]


def _first_statement(module: Module) -> ast.stmt:
    """The docstring or `__future__` import when there is one, else the first statement."""
    last = module.tree.body[0]
    for statement in module.tree.body:
        docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if not (docstring or future):
            break
        last = statement
    return last


_STANDARD = frozenset(
    [
        "argparse",
        "collections",
        "copy",
        "csv",
        "datetime",
        "glob",
        "json",
        "logging",
        "math",
        "os",
        "pathlib",
        "pickle",
        "pprint",
        "random",
        "re",
        "shutil",
        "subprocess",
        "sys",
        "time",
        "typing",
        "warnings",
    ]
)
