"""Where a program imports from beyond the folders that Python begins with: what it adds to `sys.path`, and modules whose names it
puts together while it runs.

In: parsed modules and their paths.  Out: folders and names of modules.  Nothing is imported or executed.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from migrator.facts.python.syntax import Module

_PATH_EDITS = ("sys.path.append", "sys.path.insert")
_IMPORTERS = ("importlib.import_module", "__import__")
_MAX_FILES = 20_000


def path_edits(module: Module, path: Path) -> list[Path]:
    """Folders that the module adds to `sys.path`, where they can be read from the source."""
    folders: list[Path] = []
    for node in module.nodes:
        if isinstance(node, ast.Call) and module.qualified(node.func) in _PATH_EDITS and node.args:
            found = _literal_folders(node.args[-1], module, path)
            folders += [folder.resolve() for folder in found if folder.is_dir()]
    return folders


def _passed(module: Module, function: ast.AST, position: tuple[int, ...]) -> list[ast.AST | None]:
    """What the module's own calls of a function give for a parameter."""
    name = getattr(function, "name", None)
    calls = [n for n in module.nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == name]
    return [call.args[position[0]] for call in calls if position and position[0] < len(call.args)]


def _literal_folders(node: ast.AST | None, module: Module, path: Path) -> list[Path]:
    """The folders that an expression may name, as far as they can be read from the source."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [path.parent / node.value]
    if isinstance(node, ast.Name):
        if node.id == "__file__":
            return [path]
        found = module.lookup(node.id, module.scope_of.get(node, module.scope))
        values = [b.value for b in found[1] if b.kind == "assign"] if found else []
        if found and not values and found[1][0].kind == "param":
            values = _passed(module, found[0].node, found[1][0].path)
        return [folder for value in values for folder in _literal_folders(value, module, path)]
    if isinstance(node, ast.Call):
        name = module.qualified(node.func) or ""
        if name == "os.path.dirname" and node.args:
            return [folder.parent for folder in _literal_folders(node.args[0], module, path)]
        if name in ("os.path.abspath", "os.path.realpath", "str", "os.path.normpath") and node.args:
            return _literal_folders(node.args[0], module, path)
        if name == "os.path.join" and node.args:
            rest = [a.value for a in node.args[1:] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            known = len(rest) == len(node.args) - 1
            return [base.joinpath(*rest) for base in _literal_folders(node.args[0], module, path) if known]
        if name == "os.getcwd":
            return [Path.cwd()]
    return []


def python_path(entry: Path) -> list[Path]:
    """Folders of the entry's repository that `PYTHONPATH` names, as it is set for this run: the program is started with the same."""
    home = next((folder for folder in entry.resolve().parents if (folder / ".git").exists()), None)
    named = [Path(part).resolve() for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    return [folder for folder in named if home is not None and folder.is_relative_to(home) and folder.is_dir()]


def adds_unread_folder(module: Module, path: Path) -> bool:
    """True when the module adds folders to `sys.path` whose names are only known when it runs."""
    return any(
        isinstance(node, ast.Call)
        and module.qualified(node.func) in _PATH_EDITS
        and node.args
        and not any(folder.is_dir() for folder in _literal_folders(node.args[-1], module, path))
        for node in module.nodes
    )


class Tree:
    """The Python files of a project, by which an import is found whose folder is only known when the program runs."""

    def __init__(self, root: Path, skipped: Collection[str]):
        self.root, self.skipped = root, skipped
        self._folders: list[Path] | None = None
        self._homes: dict[str, list[Path]] = {}

    def only_home(self, name: str) -> list[Path]:
        """The one folder of the project from which a dotted name can be imported; none where there are several."""
        first = name.split(".")[0]
        if not first or first in sys.stdlib_module_names:
            return []
        if self._folders is None:
            self._folders = list(self._walk())
        if first not in self._homes:
            homes = [f for f in self._folders if (f / f"{first}.py").is_file() or (f / first / "__init__.py").is_file()]
            self._homes[first] = homes if len(homes) == 1 else []
        return self._homes[first]

    def _walk(self) -> Iterator[Path]:
        seen = 0
        for folder, folders, files in os.walk(self.root):
            folders[:] = [f for f in folders if f not in self.skipped and not f.startswith(".")]
            seen += len(files)
            if seen > _MAX_FILES:
                return
            yield Path(folder)


def named_at_run_time(module: Module, roots: Sequence[Path]) -> list[str]:
    """Modules that `importlib.import_module` is given: one by its name, all of a package where the name is put together.

    Of those only the ones with an ending that the module asks for (`name.endswith("_model.py")`), where it asks.  Of an option's
    value its default is known, and so is the default of a flag for a configuration file.
    """
    found: list[str] = []
    for node in module.nodes:
        if isinstance(node, ast.Call) and node.args and module.qualified(node.func) in _IMPORTERS:
            given = node.args[0]
            if isinstance(given, ast.Constant) and isinstance(given.value, str):
                found.append(given.value)
            elif (package := _beginning(given)).endswith(".") and package.strip("."):
                found += _members(package.strip("."), roots, _endings(module))
            elif isinstance(given, ast.Attribute):
                found += _defaults(module, given.attr)
        elif isinstance(node, ast.Call) and len(node.args) > 1 and _is_config_flag(module, node):
            found += _module_of(node.args[1])
    return found


def _is_config_flag(module: Module, call: ast.Call) -> bool:
    return (module.qualified(call.func) or "").endswith("config_flags.DEFINE_config_file")


def _defaults(module: Module, option: str) -> list[str]:
    """What `add_argument("--option", default="...")` gives for `args.option`."""
    found = []
    for node in module.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            names = [a.value.lstrip("-").replace("-", "_") for a in node.args if _is_text(a)]  # type: ignore[attr-defined]
            if option in names:
                found += [name for k in node.keywords if k.arg == "default" for name in _module_of(k.value)]
    return found


def _module_of(node: ast.expr) -> list[str]:
    """`a.b`, of `a.b` or `a/b.py`."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return []
    name = node.value.removeprefix("./").removesuffix(".py").replace("/", ".")
    return [name] if all(part.isidentifier() for part in name.split(".")) else []


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _beginning(node: ast.AST) -> str:
    """The text that an expression begins with, as far as it is constant."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return _beginning(node.values[0]) if node.values else ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
        return _beginning(node.left).partition("%")[0]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return _beginning(node.func.value).partition("{")[0]
    return ""


def _members(package: str, roots: Sequence[Path], endings: tuple[str, ...]) -> list[str]:
    for root in roots:
        folder = root.joinpath(*package.split("."))
        if folder.is_dir():
            files = sorted(p for p in folder.glob("*.py") if p.stem != "__init__" and p.name.endswith(endings or ".py"))
            return [f"{package}.{p.stem}" for p in files]
    return []


def _endings(module: Module) -> tuple[str, ...]:
    calls = [n for n in module.nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.args]
    asked = [c.args[0] for c in calls if getattr(c.func, "attr", "") == "endswith"]
    texts = [a.value for a in asked if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return tuple(text for text in texts if text.endswith(".py"))
