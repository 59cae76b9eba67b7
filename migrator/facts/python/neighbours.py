"""Which modules of a program other programs of the same project use too.

In: the program's modules and the project's folder.  Out: their paths.  What is put there must also work in a program that
never joined a process group, such as a script that evaluates or exports.
"""

from __future__ import annotations

import ast
import os
import re
import stat
import sys
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from migrator.facts.python.syntax import Module

_SKIPPED = {"site-packages", "venv", "node_modules", "__pycache__", "build", "dist"}
_MAX_FILES = 3000
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+([^#\n]*)|import[ \t]+([^#\n]*))", re.MULTILINE)

_STARTS = re.compile(r"^(if\s.*__name__|[A-Za-z_][\w.]*\(|for\s|with\s|while\s)", re.MULTILINE)
# A program with options of its own; a module that only shows itself has none.
_MAIN = re.compile(r"^if\s+__name__\s*==", re.MULTILINE)
_OPTIONS = re.compile(r"ArgumentParser\(|\bsys\.argv\b|\bOptionParser\(|@click\.|\bfire\.Fire\(|\bapp\.run\(|@hydra\.")


def used_by_others(modules: dict[str, Module], root: Path, entry: Module) -> frozenset[str]:
    """Paths of the modules that are run without the program: files outside it import them, or they are programs themselves."""
    own = {os.path.realpath(module.path) for module in modules.values()}
    names: set[str] = set()
    for path in other_files(root, own):
        names |= imported_names(path)
    by_tail: dict[str, list[Module]] = {}
    for module in modules.values():
        by_tail.setdefault(module.name.rpartition(".")[2], []).append(module)
    queue = [module for name in names for module in by_tail.get(name, ())]
    queue += [m for m in modules.values() if m is not entry and _MAIN.search(m.text) and _OPTIONS.search(m.text)]
    found: set[str] = set()
    while queue:
        module = queue.pop()
        if module.path not in found:
            found.add(module.path)
            queue += [m for name in module.imported_modules for part in name.split(".") for m in by_tail.get(part, ())]
    return frozenset(found)


def other_programs_using(
    definitions: set[tuple[str, str]], modules: dict[str, Module], root: Path
) -> dict[tuple[str, str], str]:
    """Which of the definitions, by path and name, files outside the program import and name, each with the first such file.

    Only what can be started counts: a file with statements of its own, not a test of the definitions.
    """
    own = {os.path.realpath(module.path) for module in modules.values()}
    found: dict[tuple[str, str], str] = {}
    homes = {_imported_as(Path(path)) for path, _ in definitions} | {name for _, name in definitions}
    for path in other_files(root, own):
        if not homes & imported_names(path):
            continue
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        named = [one for one in definitions if one not in found and re.search(rf"\b{re.escape(one[1])}\b", text)]
        if not named or not _STARTS.search(text) or path.name.startswith("test_"):
            continue
        found.update(
            dict.fromkeys([one for one in named if _takes(text, _imported_as(Path(one[0])), one[1])], str(path))
        )
    return found


def _takes(text: str, module: str, name: str) -> bool:
    """True when a file imports a definition of a module by name, or its module and a name of that kind from it."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return True  # what cannot be read may
    is_imported = False
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            given = {alias.name for alias in node.names}
            if (node.module or "").rpartition(".")[2] in (module, "") and given & {name, "*"}:
                return True
            is_imported |= module in given or name in given  # re-exported by a package
        elif isinstance(node, ast.Import):
            is_imported |= any(alias.name.rpartition(".")[2] == module for alias in node.names)
    return is_imported and any(
        (isinstance(node, ast.Attribute) and node.attr == name) or (isinstance(node, ast.Name) and node.id == name)
        for node in ast.walk(tree)
    )


def other_files(root: Path, own: set[str]) -> Iterable[Path]:
    """The Python files below a folder, but for a program's own (real paths) and those of environments and builds."""
    count = 0
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if f not in _SKIPPED and not f.startswith(".")]
        for file in sorted(files):
            if file.endswith(".py") and os.path.realpath(os.path.join(folder, file)) not in own:
                count += 1
                if count > _MAX_FILES:
                    return
                yield Path(folder, file)


def _imported_as(module: Path) -> str:
    return module.parent.name if module.stem == "__init__" else module.stem


def imported_names(path: Path) -> frozenset[str]:
    """What a file imports; read once for all programs of a tree."""
    try:
        state = path.stat()
    except OSError:
        return frozenset()
    if not stat.S_ISREG(state.st_mode):
        return frozenset()
    return _imports_of(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=4 * _MAX_FILES)
def _imports_of(path: Path, changed: int, size: int) -> frozenset[str]:
    try:
        return frozenset(sys.intern(name) for name in _imported(path.read_text(encoding="utf-8", errors="replace")))
    except OSError:
        return frozenset()


def _imported(text: str) -> Iterable[str]:
    """Every part of every name that a file imports: `from a.b import c` gives a, b and c."""
    for match in _IMPORT.finditer(text):
        for part in (match[1], match[2], match[3]):
            yield from re.findall(r"\w+", part or "")
