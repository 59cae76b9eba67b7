"""Lines of the project's scripts and pages that start a program, and the line that starts the converted one.

In: a project and options.  Out: `LaunchLine`s: where, and the text that starts all processes, in place of the interpreter and the
script's name.  Everything else on the line (environment, redirections, arguments, schedulers) stays.  Nothing is executed,
and variables are not followed: where the number of GPUs is written out, it is used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from codemods.options import Options
from migrator.facts.python.syntax import Span
from migrator.launch.command import COUNT_GPUS, launch_line
from migrator.load.project import Project, has_mark
from migrator.load.source import Source, SourceError

_PAGES = (".md", ".rst")
_SUFFIXES = (".sh", ".bash", ".zsh", ".slurm", ".sbatch", ".pbs", ".mk", *_PAGES)
_NAMES = ("readme", "makefile", "gnumakefile")
_SKIPPED = {"node_modules", "site-packages", "venv", "__pycache__", "build", "dist"}
_DEPTH, _MOST_FOLDERS, _MOST_FILES, _LONGEST = 2, 300, 100, 200_000
_START = re.compile(
    r"(?P<python>(?<![\w./$-])(?:[\w./~-]*/)?python(?:3(?:\.\d+)?)?|\$\{?PYTHON\}?|\$\(PYTHON\))(?P<flags>(?:\s+-[A-Za-z]+)*?)\s+"
    r"(?:-m\s+torch\.distributed\.(?P<launcher>launch|run)(?P<options>(?:\s+--?[\w-]+(?:[= ][^\s-]\S*)?)*?)\s+)?"
    r"(?:-m\s+(?P<module>[\w.]+)|(?P<quote>[\"']?)(?P<script>[^\s\"'`;|&<>]*?[\w-]+\.py)(?P=quote))(?![\w/.])"
)
_VISIBLE = re.compile(r"\bCUDA_VISIBLE_DEVICES=[\"']?([^\s\"';&|`]*)")
_PLACE = re.compile(r"^(?:\$\{?\w+\}?|\$\(\w+\)|~)/")


@dataclass(frozen=True, slots=True)
class LaunchLine:
    """A line that starts the program: `at` is what `text` replaces, `line` the whole line as it would be then.

    `obstacle` says why there is no text that is known to be right; it is empty otherwise.
    """

    at: Span
    text: str
    line: str
    obstacle: str = ""


def launch_lines(project: Project, options: Options) -> list[LaunchLine]:
    """All lines that start the project's entry with one process, in files around it."""
    found: list[LaunchLine] = []
    for path in _files(project):
        try:
            source = read_script(project, path)
        except SourceError:
            continue  # what cannot be decoded is no script of the project
        found += _in_script(project, options, path, source)
    return found


def read_script(project: Project, path: Path) -> Source:
    """A script's text; every byte comes back, whatever the encoding."""
    path = Path(os.path.realpath(path))
    shown = _shown(project, path)
    earlier = project.overlay.get(path)
    if earlier is not None:
        return replace(earlier, path=shown)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SourceError(shown, f"cannot be read: {error.strerror or error}") from error
    if b"\0" in data or len(data) > _LONGEST:
        raise SourceError(shown, "is not a script")
    try:
        return Source(shown, data.decode("utf-8"), "utf-8")
    except UnicodeDecodeError:
        return Source(shown, data.decode("latin-1"), "latin-1")


def _in_script(project: Project, options: Options, path: Path, source: Source) -> Iterator[LaunchLine]:
    is_page = path.name.lower().startswith("readme") or path.suffix in _PAGES
    if "python" not in source.text.lower():
        return
    visible = ""
    start = 0
    for number, line in enumerate(source.text.splitlines(keepends=True), 1):
        begin, start = start, start + len(line)
        if (line.lstrip().startswith("#") and not is_page) or "mgmigrate: ignore" in line:
            continue
        for match in _START.finditer(line):
            head = line[: match.start()]
            if re.search(r"\b(?:echo|printf)\b", head) or not _starts(project, path, match):
                continue
            own = _VISIBLE.findall(head)
            gpus = _count(own[-1] if own else visible)
            if gpus == 1 and not options.nproc:
                continue  # one process is what it should be
            at = Span(source.path, begin + match.start(), begin + match.end(), number)
            text, obstacle = _started(project, options, match, gpus)
            if path.name.lower() in ("makefile", "gnumakefile") or path.suffix == ".mk":
                text = text.replace(COUNT_GPUS, "$" + COUNT_GPUS)
            whole = f"{head}{text}{line[match.end() :]}"
            yield LaunchLine(at, text, whole.strip().lstrip("$> ").strip("`"), obstacle)
        if not _START.search(line):
            visible = (_VISIBLE.findall(line) or [visible])[-1]


def _count(visible: str) -> int:
    """How many GPUs CUDA_VISIBLE_DEVICES names; 0 where it is not written out."""
    return len(visible.split(",")) if re.fullmatch(r"\d+(,\d+)*,?", visible) and not visible.endswith(",") else 0


def _started(project: Project, options: Options, match: re.Match[str], gpus: int) -> tuple[str, str]:
    """The text that starts all processes, and what keeps it from being right."""
    chosen = replace(options, nproc=options.nproc or gpus)
    command = launch_line(project, chosen)
    end = project.command if project.package or options.target == "accelerate" else f"-- {project.entry.path}"
    head = command.removesuffix(end).rstrip()
    script = f"-m {match['module']}" if match["module"] else f"{match['quote']}{match['script']}{match['quote']}"
    if options.target != "accelerate" and not match["module"]:
        script = f"-- {script}"  # torchrun would take the program's options for its own
    if not re.fullmatch(r"python[\d.]*", match["python"]):  # the interpreter of one environment
        head = head.replace("torchrun", f"{match['python']} -m torch.distributed.run", 1)
        head = head.replace("accelerate launch", f"{match['python']} -m accelerate.commands.launch", 1)
    obstacle = ""
    if set(match["flags"].replace("-", "").split()) - {"u"}:  # torchrun and accelerate start Python with -u
        obstacle = f"it gives Python{match['flags']}, which a launcher does not hand on"
    elif match["launcher"] and options.target != "accelerate":
        kept = re.sub(r"\s+--use[_-]env\b", "", match["options"])
        head, script = f"torchrun{kept}", script.removeprefix("-- ")
    elif match["launcher"]:
        obstacle = "its options are torch.distributed.launch's"
    return f"{head} {script}", obstacle


def _starts(project: Project, path: Path, match: re.Match[str]) -> bool:
    """True when the line starts this project's entry."""
    entry = Path(os.path.realpath(project.entry.path))
    if match["module"]:
        name = project.entry.name
        return bool(match["module"] == name or (entry.name == "__main__.py" and f"{match['module']}.__main__" == name))
    named = match["script"]
    below = _PLACE.sub("", named)
    if below != named or os.path.isabs(named):
        try:
            own = entry.relative_to(os.path.realpath(project.root)).as_posix()
        except ValueError:
            own = entry.name
        return below == own or named.endswith(f"/{own}")
    for folder in (path.parent, project.root, entry.parent):
        place = Path(os.path.realpath(folder / named))
        if place == entry:
            return True
        if place.is_file():
            return False  # another program of that name
    tail = os.path.normpath(named)
    return not tail.startswith("..") and entry.as_posix().endswith(f"/{tail}")


# -------------------------------------------------------------------- files
def _files(project: Project) -> list[Path]:
    """Scripts and pages around the entry: in its folder, in the project's where it is known, and in those below them."""
    entry = Path(os.path.realpath(project.entry.path)).parent
    root = Path(os.path.realpath(project.root))
    found: dict[Path, None] = {}
    budget = _MOST_FOLDERS
    for top in dict.fromkeys((entry, root)):
        queue = [
            (top, 0 if top == entry or has_mark(root) else _DEPTH)
        ]  # beside it there may be other people's programs
        while queue and budget and len(found) < _MOST_FILES:
            folder, depth = queue.pop(0)
            budget -= 1
            try:
                inside = sorted(os.scandir(folder), key=lambda one: one.name)
            except OSError:
                continue  # not readable: it holds no script that the user could start
            for one in inside:
                if one.is_dir(follow_symlinks=False):
                    if depth < _DEPTH and one.name not in _SKIPPED and not one.name.startswith("."):
                        queue.append((Path(one.path), depth + 1))
                elif one.is_file(follow_symlinks=False) and (
                    one.name.endswith(_SUFFIXES) or one.name.lower().startswith(_NAMES)
                ):
                    found[Path(one.path)] = None
    return list(found)[:_MOST_FILES]


def _shown(project: Project, path: Path) -> str:
    """A path as the user would write it."""
    if os.path.isabs(project.entry.path):
        return str(path)
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
