"""Where helpers go: into the entry when it alone needs a few lines, or into a module beside it.

In: the helpers that fixes ask for.  Out: edits that make every one callable where it is used, and the new module.  A helper
whose name the program uses for something else gets another one.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from migrator.convert.conversion import FileChange
from migrator.convert.helper_home import helper_home
from migrator.convert.helpers import (
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
from migrator.edits import AddHelper, AddImport, Edit, InsertBefore, Labelled
from migrator.facts.program import Program
from migrator.facts.python.syntax import Module, Span
from migrator.load.project import Project
from migrator.rewrite.imports import leading_imports


def _is_taken(module: Module, lines: Sequence[str]) -> bool:
    """True where the module's own top level has another meaning for a name that an import line would bind."""
    for line in lines:
        node = ast.parse(line).body[0]
        assert isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names:
            name = alias.asname or alias.name.split(".")[0]
            target = f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
            target = target if alias.asname or isinstance(node, ast.ImportFrom) else name
            bound = module.scope.bindings.get(name, [])
            if any(b.kind != "import" for b in bound) or (bound and module.imports.get(name) != target):
                return True
    return False


def _stands_below_imports(program: Program) -> bool:
    """False where the processes meet above an import: definitions that are called there would come too late."""
    first = program.entry.first
    module = program.entry_module
    imports = [s for s in module.tree.body if isinstance(s, ast.Import | ast.ImportFrom)]
    return first is not None and all(module.span(s) != first for s in imports)


def place_helpers(
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
    fits = fits_inline(helpers) and not _is_taken(entry, helper_imports(helpers))
    if only_entry and (inline or fits) and _stands_below_imports(program):
        above = program.region.last if program.region is not None else _definition_place(program)
        edits = [replace(label, edit=InsertBefore(above, _spaced(_respell(helper_text(helpers), respelled))))]
        edits += [replace(label, edit=AddImport(above, line)) for line in helper_imports(helpers)]
        return edits
    accelerate = any("accelerator" in helper.text for helper in helpers)
    place = helper_home(project, [one.edit.at.path for one in wanted])
    earlier = None if respelled else own_module(place.folder, project.overlay, accelerate)
    if earlier is not None:  # another program of this folder was converted before
        name, source = earlier
        helpers = with_needs([*names, *helpers_in(source)])
    else:
        taken = {n for module in program.modules for n in (module.name.rpartition(".")[2], *module.scope.bindings)}
        name, source = free_module_name(place.folder, taken, accelerate), None
    path = str(place.folder / f"{name}.py")
    home = f"{place.prefix}{name}"
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


def _definition_place(program: Program) -> Span:
    """The first statement after imports and constants, or where a script's processes meet: helpers are defined before it."""
    module = program.entry_module
    first = program.entry.first if program.entry.kind == "flat" else None
    top = [s for s in leading_imports(module) if first is not None and module.span(s).start < first.start]
    for statement in module.tree.body:
        if (
            isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            or module.span(statement) == first
        ):
            return module.span(statement)
        if top and module.span(statement).start < module.span(top[-1]).start:
            continue  # what stands between imports serves those below it
        if not isinstance(statement, ast.Import | ast.ImportFrom | ast.Assign | ast.Try) and not (
            isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Call)
        ):
            return module.span(statement)
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            return module.span(statement)
    return module.span(module.tree.body[-1])


def _spaced(text: str) -> str:
    return f"\n\n{text}\n\n"


def respelled_helpers(program: Program, names: Sequence[str]) -> dict[str, str]:
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


def respell_edit(edit: Edit, respelled: Mapping[str, str]) -> Edit:
    text = getattr(edit, "text", None)
    return edit if text is None else replace(edit, text=_respell(text, respelled))  # type: ignore[arg-type]
