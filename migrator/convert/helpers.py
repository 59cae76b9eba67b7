"""Where helpers of converted programs come from and where they go.

In: names of helpers, the program, and the modules that call them.  Out: edits that paste them into the entry when it alone
needs a few lines, or a new module beside the entry with imports where they are used.  Helper text is read from
`codemods.templates`, where it is ordinary, tested code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import codemods.templates
from migrator.load.read import read_source
from migrator.load.source import Source
from migrator.rewrite.imports import joined

_INLINE_LINES = 60
_MODULE_NAMES = ("ddp_utils", "distributed_utils", "multi_process", "training_processes")


@dataclass(frozen=True, slots=True)
class Helper:
    """A function, class or constant of a template: its text, the imports and other helpers that it uses."""

    name: str
    text: str
    imports: tuple[str, ...]
    needs: tuple[str, ...]
    order: int


@lru_cache(maxsize=1)
def catalogue() -> dict[str, Helper]:
    """All helpers of all templates by name."""
    found: dict[str, Helper] = {}
    for path in sorted(Path(codemods.templates.__path__[0]).glob("[!_]*.py")):
        found.update(_read(path.read_text(encoding="utf-8"), len(found)))
    return found


def _read(text: str, offset: int) -> dict[str, Helper]:
    tree = ast.parse(text)
    lines = text.splitlines(keepends=True)
    imports: dict[str, str] = {}
    definitions: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                imports[alias.asname or alias.name.split(".")[0]] = f"import {alias.name}" + (
                    f" as {alias.asname}" if alias.asname else ""
                )
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            for alias in node.names:
                imports[alias.asname or alias.name] = f"from {node.module} import {alias.name}" + (
                    f" as {alias.asname}" if alias.asname else ""
                )
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            definitions[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            definitions[node.targets[0].id] = node
    helpers: dict[str, Helper] = {}
    for order, (name, node) in enumerate(definitions.items()):
        used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        helpers[name] = Helper(
            name,
            "".join(lines[first - 1 : node.end_lineno]).rstrip("\n") + "\n",
            tuple(imports[n] for n in imports if n in used),
            tuple(n for n in definitions if n in used and n != name),
            offset + order,
        )
    return helpers


def with_needs(names: Iterable[str]) -> list[Helper]:
    """The helpers and all that they need, in template order."""
    helpers, queue, seen = catalogue(), list(names), set()
    while queue:
        name = queue.pop()
        if name not in seen:
            seen.add(name)
            queue.extend(helpers[name].needs)
    return sorted((helpers[name] for name in seen), key=lambda helper: helper.order)


def helper_text(helpers: list[Helper]) -> str:
    """Definitions, two blank lines apart."""
    return "\n\n".join(helper.text for helper in helpers)


def helper_imports(helpers: list[Helper]) -> list[str]:
    """Import lines, plain imports of the standard library first, then torch."""
    lines = dict.fromkeys(line for helper in helpers for line in helper.imports)
    return sorted(lines, key=lambda line: (_is_installed(line), line.startswith("from"), line))


def _is_installed(line: str) -> bool:
    """True for what comes from a library."""
    return line.split()[1].split(".")[0] in ("torch", "accelerate")


def fits_inline(helpers: list[Helper]) -> bool:
    return sum(helper.text.count("\n") for helper in helpers) <= _INLINE_LINES


def module_text(helpers: list[Helper]) -> str:
    """A whole helper module."""
    imports = list(joined(helper_imports(helpers)))
    standard = [line for line in imports if not _is_installed(line)]
    rest = [line for line in imports if _is_installed(line)]
    blocks = ["\n".join(block) for block in (standard, rest) if block]
    return '"""What the processes of this program share."""\n\n' + "\n\n".join(blocks) + "\n\n\n" + helper_text(helpers)


def own_module(folder: Path, overlay: Mapping[Path, Source], accelerate: bool) -> tuple[str, Source] | None:
    """The module of helpers that an earlier conversion put into the folder: its name and text, when nobody changed it."""
    for name in _MODULE_NAMES[accelerate:]:
        path = folder / f"{name}.py"
        source = overlay.get(path.resolve()) or (read_source(path) if path.is_file() else None)
        if source is not None and source.text == module_text(with_needs(_defined(source.text))):
            return name, source
    return None


def helpers_in(source: Source) -> list[str]:
    """Names of the helpers in such a module."""
    return _defined(source.text)


def _defined(text: str) -> list[str]:
    return [name for name in re.findall(r"^(?:def|class) (\w+)", text, re.MULTILINE) if name in catalogue()]


def free_module_name(folder: Path, taken: Iterable[str], accelerate: bool = False) -> str:
    """A module name that neither the folder nor the program uses."""
    used = set(taken)
    names = _MODULE_NAMES[accelerate:]
    for name in (*names, *(f"{names[0]}_{i}" for i in range(2, 100))):
        if name not in used and not (folder / f"{name}.py").exists() and not (folder / name).exists():
            return name
    raise FileExistsError(f"no free module name in {folder}")


def is_helper_module(name: str) -> bool:
    """True for the module that an earlier conversion put beside the entry, by its name."""
    return name.rpartition(".")[2].startswith(_MODULE_NAMES)
