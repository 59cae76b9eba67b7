"""Convert one program: load, collect facts, check rules, plan, rewrite.

In: an entry file and options.  Out: a `Conversion` with the changed files, every diagnostic and the launch line.  Nothing is
written, printed or executed here.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from codemods import load_rules
from codemods.base import Context, Diagnostic, Options, Rule
from migrator.accelerated import accelerated
from migrator.bystanders import needed_elsewhere, without_drops, without_vendored
from migrator.edits import AddHelper, AddImport, Edit, InsertBefore, Label, Labelled, ReplaceText
from migrator.facts.ddp_form import is_ddp_form
from migrator.facts.program import Program
from migrator.facts.sharing import SPLIT_AT_CALL, Sharing, choose_sharing
from migrator.facts.syntax import Module, Span
from migrator.helpers import (
    catalogue,
    fits_inline,
    free_module_name,
    helper_imports,
    helper_text,
    helpers_in,
    is_helper_module,
    module_text,
    own_module,
    with_needs,
)
from migrator.hints import with_hints
from migrator.imports import import_edits
from migrator.launch import launch_line
from migrator.project import Project, load_project
from migrator.scripts import read_script
from migrator.source import Source, SourceError
from migrator.timing import stage

if TYPE_CHECKING:
    from migrator.rewrite import Rewritten

# What only says in today's words what the program says already; `verify` applies them to an original that it cannot run.
MODERN_RULES = frozenset({"MG001", "MG004", "MG005", "MG006", "MG007", "MG008", "MG009", "MG010"})
# What starts several processes, and what makes a model train over them; each is of no use without the other.
JOINS, WRAPS = frozenset({"MG101", "MG104"}), frozenset({"MG301", "MG302", "MG305"})
_IGNORE = re.compile(r"#\s*mgmigrate:\s*ignore\[([A-Z0-9, ]+)\]")


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file before and after; `before` is None for a new file.  Line labels say which fixes changed a line."""

    path: str
    before: str | None
    after: str
    source: Source | None
    labels_before: dict[int, frozenset[Label]]
    labels_after: dict[int, frozenset[Label]]


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of converting one program."""

    entry: str
    outcome: str
    changes: tuple[FileChange, ...]
    diagnostics: tuple[Diagnostic, ...]
    launch: str
    way: str = ""
    reason: str = ""
    policies: tuple[str, ...] = ()  # flags that changed the training on purpose

    @property
    def questions(self) -> list[Diagnostic]:
        return [d for d in self.diagnostics if d.level == "question"]

    @property
    def exit_code(self) -> int:
        return 3 if self.questions else 0


# Given the whole conversion, what is told in the place of each fix that is left out (see migrator.selection).
Choice = Callable[[Conversion], Mapping[Diagnostic, Diagnostic | None]]


def convert_program(
    entry: Path,
    options: Options,
    source: Source | None = None,
    overlay: Mapping[Path, Source] | None = None,
    choose: Choice | None = None,
) -> Conversion:
    """Convert the program behind an entry file; raises `SourceError` when the entry cannot be read or parsed.

    `overlay` holds files, by absolute path, that are to be taken instead of what the disk holds; `choose` may leave fixes out.
    """
    return convert_loaded(entry, Program(load_project(entry, source, overlay)), options, choose, overlay)


def convert_loaded(
    entry: Path,
    program: Program,
    options: Options,
    choose: Choice | None = None,
    overlay: Mapping[Path, Source] | None = None,
) -> Conversion:
    """The same for a program that is loaded and linked already."""
    program = with_hints(program, options)
    if options.target == "accelerate" and is_ddp_form(program):
        from migrator.from_ddp import convert_from_ddp

        return _whole(convert_from_ddp(entry, program, options, overlay or {}), choose)
    if entry.suffix == ".ipynb":
        from migrator.notebook_launch import convert_notebook

        return convert_notebook(entry, program, options, choose)
    return convert_project(entry, program, options, choose)


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


def convert_project(entry: Path, program: Program, options: Options, choose: Choice | None = None) -> Conversion:
    """The same for a DataParallel program of Python files."""
    project = program.project
    shown = project.entry.path
    if not program.wraps:
        return _nothing_to_do(program, shown, tuple(_problem(error) for error in project.problems), options)
    sharing, diagnostics = diagnose(program, replace(options, select=(), ignore=()))
    diagnostics = _whole_or_nothing(program, diagnostics, options)
    diagnostics, changes = apply_fixes(project, program, diagnostics, options)
    conversion = _conversion(program, options, sharing, diagnostics, changes)
    for left_out in (_by_rule(options), choose):
        told = left_out(conversion) if left_out is not None else {}
        if not told:
            continue
        rows = [told.get(d, d) for d in diagnostics]
        diagnostics, changes = apply_fixes(project, program, [d for d in rows if d is not None], options)
        conversion = _conversion(program, options, sharing, diagnostics, changes)
        if program.trains and not any(d.fix and d.rule in JOINS | WRAPS for d in diagnostics):  # it stays one process
            conversion = replace(conversion, launch=f"python {project.command}", way="", reason="")
    return conversion


def _by_rule(options: Options) -> Choice | None:
    """What leaves out the rules that are not selected."""
    if not options.select and not options.ignore:
        return None
    from migrator.selection import unselected

    return unselected({rule.id for rule in load_rules() if not _selected(rule, options)})


def _whole(conversion: Conversion, choose: Choice | None) -> Conversion:
    """A conversion of which all fixes are one: without one of them nothing is left."""
    left_out = choose(conversion) if choose is not None else {}
    if not left_out:
        return conversion
    told = (left_out.get(d, d) for d in conversion.diagnostics)
    rows = tuple(d for d in told if d is not None)
    return replace(conversion, outcome="unchanged", changes=(), diagnostics=rows, launch="", way="", reason="")


def _conversion(
    program: Program, options: Options, sharing: Sharing, diagnostics: list[Diagnostic], changes: list[FileChange]
) -> Conversion:
    shown = program.project.entry.path
    return Conversion(
        shown,
        "converted" if changes else "unchanged",
        tuple(changes),
        tuple(sorted(diagnostics, key=lambda d: (d.at.path != shown, d.at.path, d.at.line, d.rule))),
        launch_line(program.project, options) if program.trains else f"python {program.project.command}",
        sharing.way,
        sharing.reason,
        policies_of(diagnostics, options),
    )


@stage("facts and rules")
def diagnose(program: Program, options: Options) -> tuple[Sharing, list[Diagnostic]]:
    """How the program would share its batches, and what the rules say; nothing is rewritten, and libcst not imported."""
    problems = [_problem(error) for error in program.project.problems]
    if not program.trains:
        sharing = Sharing("alone", "the program only evaluates: it runs on one GPU")
    else:
        sharing = choose_sharing(program, options.sampling, options.loss, options.find_unused)
        if options.target == "accelerate":
            sharing = accelerated(program, options, sharing)
    rules = [rule for rule in load_rules() if _selected(rule, options) and (program.trains or rule.evaluation)]
    diagnostics = _checked(rules, program, sharing, options)
    if sharing.way in ("distributed", "batch") and options.sampling == "auto":
        why = needed_elsewhere(program, diagnostics)
        if why:
            sharing = Sharing("call", f"{SPLIT_AT_CALL} ({why})")
            diagnostics = _checked(rules, program, sharing, options)
    diagnostics = without_drops(program, without_vendored(program, [*problems, *diagnostics]))
    return sharing, _without_suppressed(program, diagnostics)


def _checked(rules: Sequence[Rule], program: Program, sharing: Sharing, options: Options) -> list[Diagnostic]:
    context = Context(program, sharing, options)
    return [diagnostic for rule in rules for diagnostic in rule.check(context)]


def _whole_or_nothing(program: Program, diagnostics: list[Diagnostic], options: Options) -> list[Diagnostic]:
    """Without one converted wrap the rest stays as well: several processes would each use all GPUs.

    What a person has to decide is still asked; run again after that, the rest is converted.
    """
    wraps = {wrap.at for wrap in program.wraps}
    left_out = {rule.id for rule in load_rules() if not _selected(rule, options)}
    asked = [d for d in diagnostics if d.level == "question" and d.at in wraps and d.rule not in left_out]
    if not asked or any(d.fix for d in diagnostics if d.at in wraps):
        return diagnostics
    return [d for d in diagnostics if d.fix is None]


def _selected(rule: Rule, options: Options) -> bool:
    chosen = not options.select or any(rule.id.startswith(prefix) for prefix in options.select)
    return chosen and not any(rule.id.startswith(prefix) for prefix in options.ignore)


def _problem(error: SourceError) -> Diagnostic:
    return Diagnostic("MG002", Span(error.path, 0, 0, error.line), error.message, "note", None, "display-only")


def _nothing_to_do(program: Program, shown: str, problems: tuple[Diagnostic, ...], options: Options) -> Conversion:
    module = program.entry_module
    start = Span(module.path, 0, 0, 1)
    rows = list(problems)
    rows += [
        Diagnostic(
            "MG901", one.at, f"{one.name} ({one.reason}) is not torch's DataParallel", "question", None, "display-only"
        )
        for one in program.look_alikes
    ]
    if not program.look_alikes:  # a question is not nothing
        why = (
            "DataParallel is only mentioned, never called"
            if program.mentions
            else "this program does not use DataParallel"
        )
        rows.append(Diagnostic("MG000", start, f"nothing to do: {why}", "note"))
    return Conversion(shown, "nothing", (), tuple(rows), "")


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


# -------------------------------------------------------------------- suppressions
def _without_suppressed(program: Program, diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """Drop what a `# mgmigrate: ignore[ID]` on its line refuses, with what depends on it, and report those that refuse nothing."""
    refused: dict[tuple[str, int], set[str]] = {}
    for module in program.modules:
        if "mgmigrate" not in module.text:
            continue
        for match in _IGNORE.finditer(module.text):
            line = module.line_at(match.start())
            refused[module.path, line] = {part.strip() for part in match[1].split(",")}
    if not refused:
        return diagnostics
    used: set[tuple[str, int, str]] = set()
    out = []
    for diagnostic in diagnostics:
        at = diagnostic.at
        lines = {at.line, program.module_at(at).line_at(max(at.end - 1, 0)) if at.end else at.line}
        hits = {
            (at.path, line, diagnostic.rule) for line in lines if diagnostic.rule in refused.get((at.path, line), ())
        }
        used |= hits
        if hits:
            out.append(diagnostic)
    kept = list(diagnostics)
    if out:
        from migrator.selection import suppressed

        kept = suppressed(program.entry_module.path, diagnostics, out)
    for (path, number), ids in refused.items():
        for rule in sorted(ids):
            if (path, number, rule) not in used:
                kept.append(
                    Diagnostic(
                        "MG003",
                        Span(path, 0, 0, number),
                        f"this suppression of {rule} suppresses nothing",
                        "note",
                        None,
                        "display-only",
                    )
                )
    return kept


# -------------------------------------------------------------------- plan and rewrite
@stage("rewriting")
def apply_fixes(
    project: Project, program: Program, diagnostics: list[Diagnostic], options: Options
) -> tuple[list[Diagnostic], list[FileChange]]:
    """Rewrite all files; a fix that collides with an earlier one becomes a question, whole."""
    from migrator.rewrite import EditConflict

    while True:
        try:
            return diagnostics, _rewrite(project, program, diagnostics, options)
        except EditConflict as conflict:
            loser = next(
                (
                    d
                    for d in reversed(diagnostics)
                    if d.rule in conflict.rules
                    and d.fix
                    and any(e.at == conflict.at or e.at.start == conflict.at.start for e in d.fix.edits)
                ),
                None,
            ) or next(d for d in reversed(diagnostics) if d.rule in conflict.rules and d.fix)
            message = f"{loser.message}: not converted, because {conflict.reason}"
            diagnostics = [
                replace(d, level="question", fix=None, message=message) if d is loser else d for d in diagnostics
            ]


def _rewrite(project: Project, program: Program, diagnostics: list[Diagnostic], options: Options) -> list[FileChange]:
    from migrator.rewrite import apply_edits

    labelled = [Labelled(edit, d.rule, d.fix.reason, d.at) for d in diagnostics if d.fix for edit in d.fix.edits]
    names = [one.edit.name for one in labelled if isinstance(one.edit, AddHelper)]
    respelled = _respelled(program, [helper.name for helper in with_needs(names)])
    if respelled:
        labelled = [
            one if isinstance(one.edit, AddHelper) else replace(one, edit=_respell_edit(one.edit, respelled))
            for one in labelled
        ]
    plain = [one for one in labelled if not isinstance(one.edit, AddImport | AddHelper)]
    if not plain:
        return []
    by_path: dict[str, list[Labelled]] = defaultdict(list)
    texts: dict[str, list[Labelled]] = defaultdict(list)
    for one in plain:
        (texts if isinstance(one.edit, ReplaceText) else by_path)[one.edit.at.path].append(one)
    new_files: list[FileChange] = []
    wanted_helpers = [x for x in labelled if isinstance(x.edit, AddHelper)]
    for one in _place_helpers(project, program, wanted_helpers, new_files, options.inline_helpers, respelled):
        if isinstance(one.edit, AddImport):
            labelled.append(one)
        else:
            by_path[one.edit.at.path].insert(0, one)  # a flat script calls them right there
    own = frozenset(part for module in project.modules.values() for part in module.name.split("."))
    for module in program.modules:
        wanted = [one for one in labelled if isinstance(one.edit, AddImport) and one.edit.at.path == module.path]
        by_path[module.path] += import_edits(module, wanted, own)
    changes = []
    for module in program.modules:
        if by_path[module.path]:
            rewritten = apply_edits(module.text, by_path[module.path])
            changes.append(_change(module, rewritten))
    return [*changes, *new_files, *(_text_change(project, path, edits) for path, edits in texts.items())]


def _text_change(project: Project, path: str, edits: list[Labelled]) -> FileChange:
    """The change of a file that is no Python."""
    source = read_script(project, Path(path))
    text = source.text
    for one in sorted(edits, key=lambda one: one.edit.at.start, reverse=True):
        assert isinstance(one.edit, ReplaceText)
        text = text[: one.edit.at.start] + one.edit.text + text[one.edit.at.end :]
    labels = {one.edit.at.line: frozenset({one.label}) for one in edits}  # a launch line stays one line
    return FileChange(path, source.text, text, source, labels, labels)


def _change(module: Module, rewritten: Rewritten) -> FileChange:
    after = re.sub(r"\basinc(\s*=)", r"async\1", rewritten.text) if "asinc" in rewritten.text else rewritten.text
    return FileChange(module.path, module.source.text, after, module.source, rewritten.before, rewritten.after)


def _place_helpers(
    project: Project,
    program: Program,
    wanted: list[Labelled],
    new_files: list[FileChange],
    inline: bool,
    respelled: Mapping[str, str],
) -> list[Labelled]:
    """Inline in the entry, or a module beside it: edits that make every wanted helper callable where it is used."""
    if not wanted:
        return []
    names = list(dict.fromkeys(one.edit.name for one in wanted if isinstance(one.edit, AddHelper)))
    helpers = with_needs(names)
    entry = project.entry
    label = wanted[0]
    only_entry = all(one.edit.at.path == entry.path for one in wanted)
    if only_entry and (inline or fits_inline(helpers)) and program.entry.first is not None:
        place = program.region.last if program.region is not None else _definition_place(entry)
        edits = [replace(label, edit=InsertBefore(place, _spaced(_respell(helper_text(helpers), respelled))))]
        edits += [replace(label, edit=AddImport(place, line)) for line in helper_imports(helpers)]
        return edits
    accelerate = any("accelerator" in helper.text for helper in helpers)
    earlier = None if respelled else own_module(project.folder, project.overlay, accelerate)
    if earlier is not None:  # another program of this folder was converted before
        name, source = earlier
        helpers = with_needs([*names, *helpers_in(source)])
    else:
        taken = {n for module in program.modules for n in (module.name.rpartition(".")[2], *module.scope.bindings)}
        name, source = free_module_name(project.folder, taken, accelerate), None
    path = str(Path(entry.path).with_name(f"{name}.py"))
    home = f"{project.package}.{name}" if project.package else name
    text = _respell(module_text(helpers), respelled)
    if source is None or source.text != text:
        labels = {line: frozenset({label.label}) for line in range(1, text.count("\n") + 2)}
        new_files.append(FileChange(path, source.text if source is not None else None, text, source, {}, labels))
    used: dict[str, list[Labelled]] = defaultdict(list)
    for one in wanted:
        used[one.edit.at.path].append(one)
    edits = []
    for requests in used.values():
        first = requests[0]
        asked = {one.edit.name for one in requests if isinstance(one.edit, AddHelper)}
        imported = sorted(respelled.get(one, one) for one in asked)
        edits.append(replace(first, edit=AddImport(first.edit.at, f"from {home} import {', '.join(imported)}")))
    return edits


def _respelled(program: Program, names: Sequence[str]) -> dict[str, str]:
    """Other names for helpers whose own the program uses for something else."""
    respelled = {}
    for name in names:
        if _is_foreign(program, name):
            choices = (f"{name}_{ending}" for ending in ("ddp", "of_group", *range(2, 100)))
            respelled[name] = next(choice for choice in choices if program.is_name_free(choice))
    return respelled


def _is_foreign(program: Program, name: str) -> bool:
    """True when the program uses a helper's name for something that no earlier conversion put there."""
    text = catalogue()[name].text
    own = ast.parse(text).body[0]
    told = ast.get_docstring(own) if isinstance(own, ast.FunctionDef | ast.ClassDef) else None
    for module in program.modules:
        for scope in module.scopes.values():
            for binding in scope.bindings.get(name, ()):
                node = binding.node
                if binding.kind == "import" and is_helper_module(binding.target.rpartition(".")[0]):
                    continue
                if told and isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) == told:
                    continue
                if module.segment(node).split() != text.split():
                    return True
    return False


def _respell(text: str, respelled: Mapping[str, str]) -> str:
    """The text with other names for helpers (attributes and parts of names stay)."""
    if not respelled:
        return text
    names = "|".join(map(re.escape, respelled))
    return re.sub(rf"(?<![\w.\"'])({names})(?![\w\"'])", lambda match: respelled[match[1]], text)


def _respell_edit(edit: Edit, respelled: Mapping[str, str]) -> Edit:
    text = getattr(edit, "text", None)
    return edit if text is None else replace(edit, text=_respell(text, respelled))  # type: ignore[arg-type]


def _definition_place(module: Module) -> Span:
    """The first statement after imports and constants: helpers are defined before it."""
    for statement in module.tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return module.span(statement)
        if not isinstance(statement, ast.Import | ast.ImportFrom | ast.Assign | ast.Try) and not (
            isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Call)
        ):
            return module.span(statement)
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            return module.span(statement)
    return module.span(module.tree.body[-1])


def _spaced(text: str) -> str:
    return f"\n\n{text}\n\n"
