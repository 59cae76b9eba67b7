"""Rewrite only what today's torch refuses or spells in another way; nothing is made parallel.

`verify` runs the result in the place of an original that today's torch cannot run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from codemods.base import Context
from codemods.options import Options
from codemods.registry import load_rules
from migrator.convert.apply import apply_fixes
from migrator.convert.conversion import Conversion
from migrator.facts.program import Program
from migrator.facts.training.sharing import Sharing
from migrator.load.project import load_project
from migrator.load.source import Source

# What only says in today's words what the program says already; `verify` applies them to an original that it cannot run.
MODERN_RULES = frozenset({"MG001", "MG004", "MG005", "MG006", "MG007", "MG008", "MG009", "MG010"})


def modernise(entry: Path, source: Source | None = None, overlay: Mapping[Path, Source] | None = None) -> Conversion:
    """Rewrite only what today's torch refuses or spells in another way; nothing is made parallel.

    `verify` runs the result in the place of an original that today's torch cannot run.
    """
    program = Program(load_project(entry, source, overlay))
    context = Context(program, Sharing("call", "as the original"), Options())
    found = [d for rule in load_rules() if rule.id in MODERN_RULES for d in rule.check(context) if d.fix]
    diagnostics, changes = apply_fixes(program.project, program, found, context.options)
    return Conversion(
        program.project.entry.path, "modernised" if changes else "unchanged", tuple(changes), tuple(diagnostics), ""
    )


def refused_today(modern: Conversion) -> bool:
    """True when something that `modernise` respelled stops today's Python, torch or numpy, and does not only warn."""
    return any(d.rule in ("MG001", "MG005", "MG006", "MG008") or " no `" in d.message for d in modern.diagnostics)
