"""In which folder the module of helpers goes, and under which name it is imported.

In: a project and the modules that call helpers.  Out: a `Home`: beside the entry, which every file below finds; but in the package
itself where a package of another folder is converted too, since other programs import that one as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from migrator.load.project import Project


@dataclass(frozen=True, slots=True)
class Home:
    """`prefix` is the package with its dot, or empty."""

    folder: Path
    prefix: str


def helper_home(project: Project, users: Iterable[str]) -> Home:
    """Where all of the users (paths of modules) and the entry can import a new module from."""
    if project.package:
        named = all(part.isidentifier() for part in project.package.split("."))
        return Home(project.folder, f"{project.package}." if named else "")
    beside = project.folder.resolve()
    outside = [Path(user) for user in users if not Path(user).resolve().is_relative_to(beside)]
    homes = Counter(home for user in outside if (home := _package_of(project, user)) is not None)
    if not homes:
        return Home(project.folder, "")
    most = max(homes.values())
    return min((one for one, count in homes.items() if count == most), key=lambda one: len(one.folder.parts))


def _package_of(project: Project, user: Path) -> Home | None:
    """The outermost package of a module, by the name under which the program imports it; or the folder that it is found from."""
    names = {name for module in project.modules.values() for name in module.imported_modules}
    parts = user.with_suffix("").parts if user.name != "__init__.py" else user.parent.parts
    for length in range(1, len(parts) + 1):
        dotted = ".".join(parts[-length:])
        if not any(name == dotted or name.startswith(f"{dotted}.") for name in names):
            continue
        if length > 1 and any(
            name.startswith(f"{parts[-length - 1]}.{dotted}") for name in names if length < len(parts)
        ):
            continue  # its name is longer
        levels = length - 1 if user.name != "__init__.py" else length
        root = user.parents[levels] if levels < len(user.parents) else Path()
        top = root / parts[-length]
        return Home(top, f"{parts[-length]}.") if (top / "__init__.py").is_file() else Home(root, "")
    return None
