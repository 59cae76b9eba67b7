"""Find the program behind an entry file: the first-party modules that it reaches through imports.

In: the path of an entry.  Out: its modules in import order, and what could not be read.  Nothing is imported or executed;
installed packages are never entered.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from migrator.facts.python.syntax import Module
from migrator.load.read import read_source
from migrator.load.search_path import Tree, adds_unread_folder, named_at_run_time, path_edits, python_path
from migrator.load.source import Source, SourceError
from migrator.timing import stage

_ROOT_MARKS = (".git", "setup.py", "pyproject.toml", "setup.cfg")
_MAX_MODULES, _MAX_NODES = 600, 200_000  # a node takes half a KiB
_SKIPPED_FOLDERS = {"site-packages", ".venv", "venv", "node_modules", "__pycache__", ".git"}


@dataclass(slots=True)
class Project:
    """The modules of one program: `entry` first, then what it imports; `problems` are files that could not be read."""

    entry: Module
    modules: dict[str, Module]
    root: Path
    problems: list[SourceError] = field(default_factory=list)
    overlay: Mapping[Path, Source] = field(default_factory=dict)  # files that are to be taken instead of the disk's

    @property
    def folder(self) -> Path:
        return Path(self.entry.path).parent

    @property
    def name(self) -> str:
        """The entry's dotted name from the folder in which the program's imports begin, which may be inside a package."""
        parts = self.entry.name.split(".")
        for skip in range(len(parts) - 1, 0, -1):
            folder = self.root.joinpath(*parts[:skip])
            names = {name for module in self.modules.values() for name in module.imported_modules}
            if any(name.startswith(f"{parts[skip]}.") and _leads_to(folder, name) for name in names):
                return ".".join(parts[skip:])
        return self.entry.name

    @property
    def package(self) -> str:
        """The package of an entry that is run by `python -m`: it imports from beside itself with a dot, or is `__main__`."""
        package = self.name.rpartition(".")[0]
        dotted = any(isinstance(n, ast.ImportFrom) and n.level for n in self.entry.nodes)
        return package if dotted or Path(self.entry.path).name == "__main__.py" else ""

    @property
    def command(self) -> str:
        """What follows `python` to run the program."""
        if not self.package:
            return self.entry.path
        return "-m " + (self.package if Path(self.entry.path).name == "__main__.py" else self.name)


def _leads_to(folder: Path, name: str) -> bool:
    """True when a dotted name is that of a module below the folder, or of something in one."""
    path = folder.joinpath(*name.split("."))
    return any(p.with_name(f"{p.name}.py").is_file() for p in (path, path.parent) if p.parent != folder)


def has_mark(folder: Path) -> bool:
    """True for a folder with a file or folder that projects have at their top."""
    return any((folder / mark).exists() for mark in _ROOT_MARKS)


def project_root(entry: Path) -> Path:
    """The folder that holds the project: the nearest one upwards with a project mark, or the topmost package's parent."""
    folder = entry.resolve().parent
    while (folder / "__init__.py").exists() and folder.parent != folder:
        folder = folder.parent
    here = Path.cwd()
    marked = next((one for one in (folder, *list(folder.parents)[:3]) if has_mark(one)), None)
    found = marked or (here if folder.is_relative_to(here) else folder)
    while not all(named.is_relative_to(found) for named in python_path(entry)):
        found = found.parent
    return found


@stage("reading")
def load_project(
    entry: Path, source: Source | None = None, overlay: Mapping[Path, Source] | None = None, also: Sequence[str] = ()
) -> Project:
    """Parse the entry and all first-party modules that it reaches; raise `SourceError` when the entry itself fails.

    `overlay` holds files (by absolute path) that are not on the disk, or not yet as they are there; `also` names modules that
    the entry is to reach although it imports them in no way that can be read.
    """
    overlay = overlay or {}
    source = source or overlay.get(entry.resolve()) or read_source(entry)
    root = project_root(entry)
    roots = [entry.resolve().parent, root, *_folders_between(entry.resolve().parent, root)]
    module = Module(source, _module_name(entry.resolve(), root), entry.name == "__init__.py")
    project = Project(module, {module.name: module}, root, overlay=overlay)
    roots += [*path_edits(module, entry), *python_path(entry)]
    known: dict[Path, Module] = {entry.resolve(): module}
    queue = deque([(module, entry.resolve())])
    size = len(module.nodes)
    tree, searching = Tree(root, _SKIPPED_FOLDERS), False
    while queue:
        current, path = queue.popleft()
        named = [*current.imported_modules, *named_at_run_time(current, [*roots, path.parent])]
        if not searching and adds_unread_folder(current, path):
            searching = True
            queue.extend((earlier, place) for place, earlier in known.items())  # what was not found before may be now
        for name in dict.fromkeys([*named, *(also if current is module else ())]):
            files = _candidates(name, [*roots, path.parent], overlay)
            if not files and searching:
                roots += tree.only_home(name)
                files = _candidates(name, roots, overlay)
            for found in files:
                if found in known:
                    continue
                if len(known) >= _MAX_MODULES or size > _MAX_NODES:
                    told = f"reaches more modules than are looked at ({len(known)} were)"
                    project.problems.append(SourceError(project.entry.path, told))
                    return project
                try:
                    shown = _shown(found, entry)
                    text = overlay.get(found) or read_source(found, shown)
                    loaded = Module(text, _module_name(found, root), found.name == "__init__.py")
                except SourceError as error:
                    project.problems.append(error.alone())
                    known[found] = module
                    continue
                size += len(loaded.nodes)
                known[found] = loaded
                project.modules[loaded.name] = loaded
                queue.append((loaded, found))
                roots += [r for r in path_edits(loaded, found) if r not in roots]
    return project


def _folders_between(folder: Path, root: Path) -> list[Path]:
    """Folders that a caller may have put on the path (`PYTHONPATH=src python src/tasks/train.py`)."""
    return [p for p in folder.parents if p != root and p.is_relative_to(root)]


def _shown(path: Path, entry: Path) -> str:
    """A path as the user would write it: relative where the entry was given relative."""
    if entry.is_absolute():
        return str(path)
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _module_name(path: Path, root: Path) -> str:
    try:
        relative = path.relative_to(root)
    except ValueError:
        relative = Path(path.name)
    parts = list(relative.with_suffix("").parts)
    if parts[-1] == "__init__" and len(parts) > 1:
        parts.pop()
    return ".".join(parts)


def _candidates(name: str, roots: list[Path], overlay: Collection[Path]) -> list[Path]:
    """Files behind a dotted name: packages on the way, then the module itself."""
    parts = name.split(".")
    if not parts[0]:
        return []
    for root in dict.fromkeys(roots):
        found: list[Path] = []
        depth = 0
        for depth in range(1, len(parts) + 1):
            stem = root.joinpath(*parts[:depth])
            if (stem / "__init__.py").is_file():
                found.append((stem / "__init__.py").resolve())
            elif (file := stem.with_name(stem.name + ".py")).is_file() or file in overlay:
                found.append(file.resolve())
                break
            elif not stem.is_dir():
                break
        # Only the last part may be a name inside a module: `a.py` is not what `a.b.c` is about.
        whole = depth >= len(parts) - 1
        if found and whole and not any(set(p.parts) & _SKIPPED_FOLDERS for p in found):
            return found
    return []
