"""Copy a project, convert it as a user would, and write its diff as it is stored."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from codemods.options import Options
from migrator.convert.conversion import Conversion
from migrator.convert.helpers import is_helper_module
from migrator.convert.pipeline import convert_program
from migrator.formats.diff import diff_parts
from migrator.write.files import encoded

from .cases import Project

HERE = Path(__file__).parent
PROGRAMS, GOLDEN = HERE / "programs", HERE / "golden"
_MARK = re.compile(r"# reported: (MG\d+)")


def copy_of(name: str, folder: Path) -> Path:
    """The project's files in a folder that is a project of its own."""
    target = folder / name
    shutil.copytree(PROGRAMS / name, target, ignore=shutil.ignore_patterns("__pycache__"))
    (target / ".git").mkdir()
    return target


def convert_here(entry: str, options: Options | None = None) -> Conversion:
    """Convert the program in the current folder, and write what comes out."""
    conversion = convert_program(Path(entry), options or Options())
    for change in conversion.changes:
        Path(change.path).write_bytes(encoded(change))
    return conversion


def stored(conversion: Conversion) -> str:
    """The diff; of the module of helpers only the names of what is in it, since it has tests of its own."""
    parts = [f"{conversion.way}\n{conversion.launch}\n"]
    for change in conversion.changes:
        if is_helper_module(Path(change.path).stem):
            names = ", ".join(re.findall(r"^(?:def|class) (\w+)", change.after, re.MULTILINE))
            parts.append(f"new file {change.path} with {names}\n")
        else:
            parts += [text for _, text in diff_parts(change)]
    return "".join(parts)


def marked(project: Project) -> set[tuple[str, str, int]]:
    """File, rule and line of everything that must be reported."""
    found = set()
    for path in sorted((PROGRAMS / project.name).rglob("*.py")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            shown = path.relative_to(PROGRAMS / project.name).as_posix()
            found |= {(shown, match[1], number) for match in _MARK.finditer(line)}
    return found
