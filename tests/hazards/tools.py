"""Convert a hazard's program in a folder of its own, and read what is marked in it."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from codemods.base import Diagnostic
from codemods.options import Options
from codemods.registry import load_rules
from migrator.convert.conversion import Conversion
from migrator.convert.pipeline import convert_program
from migrator.write.files import encoded

from .cases import Case

PROGRAMS = Path(__file__).parent / "programs"
_MARK = re.compile(r"# reported: (MG\d+)")
# Said of every program with a sampler for each process, at its loader.
GENERAL = {"MG201", "MG204", "MG702"}
_ACCELERATE_ONLY = {"MG104", "MG305", "MG306", "MG411"}


@dataclass(frozen=True)
class Converted:
    conversion: Conversion
    texts: dict[str, str]  # of the converted program, by file


def convert_case(case: Case, folder: Path, options: Options | None = None) -> Converted:
    """Convert a copy of the program, in the current folder, and write what comes out."""
    for name in (f"{case.program}.py", *case.files):
        shutil.copy(PROGRAMS / name, folder / name)
    conversion = convert_program(Path(f"{case.program}.py"), options or Options())
    for change in conversion.changes:
        Path(change.path).write_bytes(encoded(change))
    return Converted(conversion, {path.name: path.read_text() for path in folder.glob("*.py")})


def marked(case: Case) -> set[tuple[str, str, int]]:
    """File, rule and line of everything that must be reported."""
    found = set()
    for name in (f"{case.program}.py", *(f for f in case.files if f.endswith(".py"))):
        for number, line in enumerate((PROGRAMS / name).read_text().splitlines(), 1):
            found |= {(name, match[1], number) for match in _MARK.finditer(line)}
    return found


def reported(conversion: Conversion) -> list[Diagnostic]:
    """What is left to a person, or told."""
    return [d for d in conversion.diagnostics if d.fix is None]


def answer(case: Case) -> str:
    """What becomes of the hazard's own place."""
    if not case.verdict:
        return "converted; the rest is a question" if case.catalogue.startswith("auto") else "question"
    if case.demoted or (marked(case) and case.catalogue.startswith(("warn", "flag"))):
        return "note"
    return "converted"


def own_rules(case: Case) -> list[str]:
    """The rules that answer the hazard: those of its own, or those of its way."""
    base = {"MG101", "MG201", "MG202", "MG204", "MG301", "MG302"}
    own = {*case.rules, *(rule for _, rule, _ in marked(case))} - base
    known = {rule.id for rule in load_rules() if case.row in rule.hazards and rule.id not in _ACCELERATE_ONLY}
    way = {"call": {"MG302"}, "batch": {"MG204"}, "distributed": {"MG201", "MG301"}}[case.way]
    return sorted(own | known | way if case.way != "distributed" else own | known or way)
