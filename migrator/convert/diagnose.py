"""Ask the rules about a linked program.

In: a program and options.  Out: how it shares its batches, and diagnostics, each with a fix or a reason why not.  Nothing is
rewritten, and libcst is not imported.
"""

from __future__ import annotations

from collections.abc import Sequence

from codemods.base import Context, Diagnostic, Level, Rule
from codemods.options import Options
from codemods.registry import load_rules
from migrator.convert.bystanders import needed_elsewhere, without_drops, without_vendored
from migrator.convert.sharing_out import shared
from migrator.convert.suppressions import without_suppressed
from migrator.facts.program import Program
from migrator.facts.python.syntax import Span
from migrator.facts.training.sharing import SPLIT_AT_CALL, Sharing
from migrator.load.source import SourceError
from migrator.timing import stage


@stage("facts and rules")
def diagnose(program: Program, options: Options) -> tuple[Sharing, list[Diagnostic]]:
    """How the program would share its batches, and what the rules say; nothing is rewritten, and libcst not imported."""
    problems = [problem(error) for error in program.project.problems]
    rules = [rule for rule in load_rules() if selected(rule, options) and (program.trains or rule.evaluation)]
    if not program.trains:
        sharing = Sharing("alone", "the program only evaluates: it runs on one GPU")
        diagnostics = _checked(rules, program, sharing, options)
    else:
        read, sharing = shared(program, options)
        diagnostics = _checked(rules, read, sharing, options)
    if sharing.way in ("distributed", "batch") and options.sampling == "auto":
        why = needed_elsewhere(program, diagnostics)
        if why:
            sharing = Sharing("call", f"{SPLIT_AT_CALL} ({why})")
            diagnostics = _checked(rules, program, sharing, options)
    diagnostics = without_drops(program, without_vendored(program, [*problems, *diagnostics]))
    return sharing, without_suppressed(program, diagnostics)


def _checked(rules: Sequence[Rule], program: Program, sharing: Sharing, options: Options) -> list[Diagnostic]:
    context = Context(program, sharing, options)
    return [diagnostic for rule in rules for diagnostic in rule.check(context)]


def whole_or_nothing(program: Program, diagnostics: list[Diagnostic], options: Options) -> list[Diagnostic]:
    """Without one converted wrap the rest stays as well: several processes would each use all GPUs.

    What a person has to decide is still asked; run again after that, the rest is converted.
    """
    wraps = {wrap.at for wrap in program.wraps}
    left_out = {rule.id for rule in load_rules() if not selected(rule, options)}
    asked = [d for d in diagnostics if d.level == "question" and d.at in wraps and d.rule not in left_out]
    if not asked or any(d.fix for d in diagnostics if d.at in wraps):
        return diagnostics
    return [d for d in diagnostics if d.fix is None]


def selected(rule: Rule, options: Options) -> bool:
    chosen = not options.select or any(rule.id.startswith(prefix) for prefix in options.select)
    return chosen and not any(rule.id.startswith(prefix) for prefix in options.ignore)


def problem(error: SourceError) -> Diagnostic:
    """A module of the program that could not be read: what it does is left as it is, by every process."""
    level: Level = "question" if error.message.startswith("cannot") else "note"
    return Diagnostic("MG002", Span(error.path, 0, 0, error.line), error.message, level, None, "display-only")


def policies_of(diagnostics: Sequence[Diagnostic], options: Options) -> tuple[str, ...]:
    """The flags that changed the training on purpose, as the user gives them: only those that something came of."""
    flags = {
        "MG401": f"--batch {options.batch}",
        "MG402": f"--amp {options.amp}",
        "MG403": f"--amp {options.amp}",
        "MG404": f"--amp {options.amp}",
        "MG321": "--sync-bn",
        "MG412": "--accumulate",
    }
    converted = {d.rule for d in diagnostics if d.fix}
    asked = ["--loss local"] if options.loss == "local" else []
    chosen = [flag for rule, flag in flags.items() if rule in converted and flag != "--amp keep"]
    return tuple(dict.fromkeys([*asked, *chosen]))
