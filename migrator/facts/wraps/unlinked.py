"""Fixed GPUs and wraps in files that the program may load by a name which only the run knows.

In: a `Program`.  Out: such places, each with what loads files so: `importlib.import_module(args.model)`, a flag for a
configuration file, `exec(open(path).read())`.  Files of the project that no other file imports may be what is loaded, unless they
are programs of their own, and with them what they import.  Nothing is read where the program loads no file so.
"""

from __future__ import annotations

import ast
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from migrator.facts.program import Program
from migrator.facts.python.neighbours import imported_names, other_files
from migrator.facts.python.nodes import dotted
from migrator.facts.python.reach import is_main_guard
from migrator.facts.python.syntax import Module

# What each takes, and which files it can load: those with the function it calls, those that only set names, or any module.
_LOADERS = {
    "config_flags.DEFINE_config_file": "get_config",
    "Config.fromfile": "settings",
    "LazyConfig.load": "settings",
    "importlib.import_module": "module",
    "importlib.util.spec_from_file_location": "module",
    "importlib.machinery.SourceFileLoader": "module",
    "imp.load_source": "module",
    "runpy.run_path": "module",
    "runpy.run_module": "module",
    "hydra.utils.instantiate": "module",
    "hydra.utils.get_class": "module",
    "pydoc.locate": "module",
    "__import__": "module",
    "exec": "module",
}
_FIXED = re.compile(r"cuda:\d|\.cuda\(\s*(device\s*=\s*)?\d|set_device\(\s*\d|device\(\s*[\"']cuda[\"']\s*,\s*\d")
_NAME = re.compile(r"cuda:\d+")
_SUBCLASS = re.compile(r"^class\s+(\w+)\((?:\w+\.)*DataParallel\)", re.MULTILINE)
_PROGRAM = re.compile(r"\bargparse\b|\bsys\.argv\b|\.backward\(")
_IGNORED = re.compile(r"#\s*mgmigrate:\s*ignore\[[A-Z0-9, ]*MG311")
_MAX_SIZE = 400_000


@dataclass(frozen=True, slots=True)
class UnlinkedDevice:
    """`text` names a GPU, or wraps a model, at a line of a file that `loader` (with its place) may load."""

    path: str
    line: int
    text: str
    loader: str


def unlinked_devices(program: Program) -> list[UnlinkedDevice]:
    """All such places, file by file; none where every file that the program loads is known."""
    found = [
        UnlinkedDevice(os.path.relpath(path), line, text, loader)
        for path, whole, loader in _loadable(program, _FIXED, dict(_loaders(program)))
        for line, text in _devices(whole)
    ]
    return list({(one.path, one.line, one.text): one for one in found}.values())


def unlinked_wraps(program: Program) -> list[UnlinkedDevice]:
    """The same for calls of DataParallel, of each file the first."""
    found: dict[str, UnlinkedDevice] = {}
    subclasses = {name for module in program.modules for name in _SUBCLASS.findall(module.text)}
    names = "|".join(["DataParallel", *sorted(subclasses)])
    loaders = dict(_loaders(program, imports=True))
    for path, whole, loader in _loadable(program, re.compile(rf"\b({names})\b"), loaders):
        tree = _parsed(whole)
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)] if tree is not None else []
        wraps = [c for c in calls if re.search(rf"(^|\.)({names})$", dotted(c.func) or "")]
        if wraps:
            first = min(wraps, key=lambda call: call.lineno)
            text = dotted(first.func) or ""
            found.setdefault(os.path.realpath(path), UnlinkedDevice(os.path.relpath(path), first.lineno, text, loader))
    return list(found.values())


def _loadable(program: Program, wanted: re.Pattern[str], loaders: dict[str, str]) -> Iterator[tuple[Path, str, str]]:
    """Files with such a text that the program may load, each with its text and what loads it."""
    if not loaders:
        return
    own = {os.path.realpath(module.path) for module in program.modules}
    texts = {path: _read(path) for path in other_files(program.project.root, own)}
    if not any(wanted.search(text) for text in texts.values()):
        return
    by_name: dict[str, list[Path]] = {}
    for path in texts:
        by_name.setdefault(path.parent.name if path.stem == "__init__" else path.stem, []).append(path)
    imports = {path: {p for name in imported_names(path) for p in by_name.get(name, ()) if p != path} for path in texts}
    linked = set().union(*imports.values())
    for kind, loader in loaders.items():
        queue = [path for path in texts if path not in linked and _can_be_loaded(path, texts[path], kind)]
        reached: set[Path] = set()
        while queue:
            path = queue.pop()
            if path not in reached:
                reached.add(path)
                queue += imports[path]
        yield from ((path, text, loader) for path, text in texts.items() if path in reached and wanted.search(text))


def _loaders(program: Program, imports: bool = False) -> Iterator[tuple[str, str]]:
    """The kinds of files that are loaded by values which cannot be read, each with the first place that does it.

    With `imports` also what runs an import that is put together as a text.
    """
    for module, call in program.calls():
        written = program.external(module, call) or dotted(call.func) or ""
        name = next((n for n in _LOADERS if written == n or written.endswith(f".{n}")), "")
        if not name or (name == "exec" and not (_runs_file(module, call) or (imports and _runs_import(module, call)))):
            continue
        given = [*call.args, *(k.value for k in call.keywords)]
        named = (
            given[1:] if name.endswith(("DEFINE_config_file", "spec_from_file_location", "load_source")) else given[:1]
        )
        if all(isinstance(value, ast.Constant) and isinstance(value.value, str) for value in named):
            continue
        yield _LOADERS[name], f"{name} at {module.path}:{call.lineno}"


def _runs_file(module: Module, call: ast.Call) -> bool:
    """`exec(open(path).read())`, also compiled, with a path that cannot be read."""
    opened = [n for n in ast.walk(call) if isinstance(n, ast.Call) and dotted(n.func) == "open" and n.args]
    opened += [n for n in ast.walk(call) if isinstance(n, ast.Attribute) and n.attr == "read_text"]  # type: ignore[misc]
    return any(not (isinstance(n, ast.Call) and isinstance(n.args[0], ast.Constant)) for n in opened)


def _runs_import(module: Module, call: ast.Call) -> bool:
    """`exec("from " + package + " import " + name)`, also under a name."""
    given: list[ast.AST | None] = [*call.args[:1]]
    if given and isinstance(given[0], ast.Name):
        found = module.lookup(given[0].id, module.scope_of.get(given[0], module.scope))
        given = [binding.value for binding in found[1]] if found else []
    texts = [n.value for node in given if node is not None for n in ast.walk(node) if isinstance(n, ast.Constant)]
    return any(isinstance(text, str) and re.search(r"\bimport\b", text) for text in texts)


def _can_be_loaded(path: Path, text: str, kind: str) -> bool:
    if path.name in ("setup.py", "conftest.py") or path.name.startswith("test_"):
        return False
    if kind == "get_config":
        return "def get_config" in text
    tree = _parsed(text)
    if tree is None or _PROGRAM.search(text):
        return False
    if kind == "settings":
        return not any(isinstance(s, ast.FunctionDef | ast.ClassDef) or is_main_guard(s) for s in tree.body)
    loud = (ast.For, ast.While, ast.With)
    return not any(
        isinstance(s, loud) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Call)) for s in tree.body
    )


def _devices(text: str) -> Iterator[tuple[int, str]]:
    """Lines that name a GPU, outside of `if __name__ == "__main__":`, unless a comment refuses the question."""
    tree, lines = _parsed(text), text.splitlines()
    for statement in tree.body if tree is not None else ():
        for node in () if is_main_guard(statement) else ast.walk(statement):
            if isinstance(node, ast.expr) and _is_fixed(node) and not _IGNORED.search(lines[node.lineno - 1]):
                yield node.lineno, ast.get_source_segment(text, node) or ""


def _is_fixed(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and bool(_NAME.fullmatch(node.value))
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    given = [*node.args, *(k.value for k in node.keywords if k.arg in ("device", "index"))]
    numbers = [a for a in given if isinstance(a, ast.Constant) and type(a.value) is int]
    return bool(numbers) and (
        node.func.attr in ("cuda", "set_device")
        or (node.func.attr == "device" and isinstance(given[0], ast.Constant) and given[0].value == "cuda")
    )


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):  # today's Python cannot load it either
        return None


def _read(path: Path) -> str:
    try:
        about = path.stat()
        regular = stat.S_ISREG(about.st_mode)  # a named pipe would keep its reader waiting
        return path.read_text(encoding="utf-8", errors="replace") if regular and about.st_size < _MAX_SIZE else ""
    except OSError:
        return ""
