"""Convert a program in DistributedDataParallel form to accelerate's form, over the DataParallel program that it stands for.

In: a program without DataParallel and the options.  Out: a `Conversion` from the files as they are to accelerate's form; its
line labels and places are those of the user's files, not of the text between.  Nothing is written, printed or executed.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from codemods.base import Context, Diagnostic
from codemods.options import Options
from codemods.processes.from_ddp import RULE
from migrator.convert.apply import apply_fixes
from migrator.convert.conversion import Conversion, FileChange
from migrator.edits import Label
from migrator.facts.processes.ddp_form import read_ddp_form
from migrator.facts.processes.own_ddp import helper_modules
from migrator.facts.program import Program
from migrator.facts.python.syntax import Module, Span
from migrator.facts.training.sharing import Sharing
from migrator.load.source import Source

Convert = Callable[[Path, Options, Source | None, Mapping[Path, Source]], Conversion]
_PER_PROCESS = "the batch of a loader stays the batch of each process, and the learning rate what it was"
_EPOCHS = "no `set_epoch` was called, so that every epoch had the order of the first; now each has an order of its own"
_NEEDS_WHOLE = (
    "this program's loader names the batch of each process, so that it must be shared out where it is loaded; that could not"
    " be done: {}"
)


def convert_from_ddp(
    entry: Path, program: Program, options: Options, overlay: Mapping[Path, Source], convert: Convert
) -> Conversion:
    """Take the processes out, convert what is left by `convert`, and tell both as one change."""
    form = read_ddp_form(program)
    found = list(RULE.check(Context(program, Sharing("alone", "as one process"), options)))
    questions = tuple(d for d in found if d.fix is None)
    shown = program.project.entry.path
    if questions:
        return Conversion(shown, "unchanged", (), questions, "")
    undone, first = apply_fixes(program.project, program, found, options)
    between = _without_imports(program, first)
    texts = {Path(path).resolve(): source for path, source in between.items()}
    own = replace(options, ddp_arguments=tuple(dict.fromkeys(form.arguments)), batch_of_process=not form.own)
    if not form.own:  # the program's own seeds decide, as they did
        seed = next(iter(form.seeds)) if len(form.seeds) == 1 else ""
        own = replace(own, seed_policy="same", sampler_seed=seed)
    done = convert(entry, own, None, {**overlay, **texts})
    if not form.own and done.way != "distributed":
        why = Diagnostic(RULE.id, found[0].at, _NEEDS_WHOLE.format(done.reason), "question", None, "display-only")
        return Conversion(shown, "unchanged", (), (why,), "")
    moved = {d: _moved(program, between, d) for d in done.diagnostics}
    places = {d.at: there.at for d, there in moved.items()}
    changes = _joined(program, first, between, [_relabelled(change, places) for change in done.changes])
    rows = [*undone, *moved.values()]
    if not form.own:
        rows.append(RULE.note(found[0].at, _PER_PROCESS))
    if not form.own and form.seeds and not form.tells_epochs:
        rows.append(RULE.note(found[0].at, _EPOCHS))
    rows += [
        RULE.note(Span(path, 0, 0, 1), "nothing imports this file of the DDP form any more: it can be deleted")
        for path in helper_modules(program)
    ]
    rows.sort(key=lambda d: (d.at.path != shown, d.at.path, d.at.line, d.rule))
    return replace(done, entry=shown, changes=tuple(changes), diagnostics=tuple(rows))


def _without_imports(program: Program, first: list[FileChange]) -> dict[str, Source]:
    """The sources between the two steps, without the imports that only what went had used."""
    sources: dict[str, Source] = {}
    for change in first:
        module = next(m for m in program.modules if m.path == change.path)
        text = change.after
        for line in sorted(_unused(module, text), reverse=True):
            rows = text.splitlines(keepends=True)
            text = "".join(rows[: line[0]] + ([line[2]] if line[2] else []) + rows[line[1] :])
        sources[change.path] = replace(module.source, text=text)
    return sources


def _unused(module: Module, text: str) -> Iterator[tuple[int, int, str]]:
    """Lines of imports (from, to) whose names are used no more, and what takes their place; names unused before stay."""
    tree = ast.parse(text)
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    before = {n.id for n in module.nodes if isinstance(n, ast.Name)}
    for node in tree.body:
        if not isinstance(node, ast.Import | ast.ImportFrom) or node.end_lineno is None:
            continue
        kept = [a for a in node.names if _bound(a) in used or _bound(a) not in before]
        if (isinstance(node, ast.ImportFrom) and node.module == "__future__") or len(kept) == len(node.names):
            continue
        end = "\r\n" if "\r\n" in text else "\n"
        node.names = kept
        yield node.lineno - 1, node.end_lineno, ast.unparse(node) + end if kept else ""


def _bound(alias: ast.alias) -> str:
    return alias.asname or alias.name.split(".")[0]


# -------------------------------------------------------------------- two steps told as one
def _joined(
    program: Program, first: list[FileChange], between: Mapping[str, Source], second: list[FileChange]
) -> Iterator[FileChange]:
    """Each file from what it is to what it becomes, with the labels of both steps on its own lines."""
    one = {change.path: change for change in first}
    two = {change.path: change for change in second}
    for path in dict.fromkeys([*one, *two]):
        undone, done = one.get(path), two.get(path)
        if undone is None and done is not None:
            yield done
            continue
        assert undone is not None and undone.before is not None
        after = done.after if done is not None else between[path].text
        if after == undone.before:
            continue
        middle = between[path].text
        rule: frozenset[Label] = frozenset({(RULE.id, "accelerate does what this was there for", None)})
        before_labels = dict(undone.labels_before)
        for old, new in _same(undone.before, middle).items():
            if done is not None and new in done.labels_before:
                before_labels[old] = before_labels.get(old, frozenset()) | done.labels_before[new]
        after_labels = dict(done.labels_after) if done is not None else {}
        behind = _same(middle, undone.after)
        for new, old in _same(after, middle).items():
            label = undone.labels_after.get(behind.get(old, 0))
            if label:
                after_labels[new] = after_labels.get(new, frozenset()) | label
        for number, line in enumerate(undone.before.splitlines(), 1):
            if line.lstrip().startswith(("import ", "from ")):
                before_labels.setdefault(number, rule)
        for number, line in enumerate(after.splitlines(), 1):
            if line.lstrip().startswith(("import ", "from ")):
                after_labels.setdefault(number, rule)
        yield FileChange(path, undone.before, after, undone.source, before_labels, after_labels)


def _relabelled(change: FileChange, places: Mapping[Span, Span]) -> FileChange:
    """The change with labels that name the places of the user's file."""

    def there(labels: Mapping[int, frozenset[Label]]) -> dict[int, frozenset[Label]]:
        return {
            line: frozenset((rule, reason, places.get(at, at) if at is not None else None) for rule, reason, at in own)
            for line, own in labels.items()
        }

    return replace(change, labels_before=there(change.labels_before), labels_after=there(change.labels_after))


def _same(left: str, right: str) -> dict[int, int]:
    """Numbers of the lines of one text by those of the other, where they are the same (numbers begin at 1)."""
    matcher = difflib.SequenceMatcher(None, left.splitlines(), right.splitlines(), autojunk=False)
    return {
        block.a + offset + 1: block.b + offset + 1
        for block in matcher.get_matching_blocks()
        for offset in range(block.size)
    }


def _moved(program: Program, between: Mapping[str, Source], diagnostic: Diagnostic) -> Diagnostic:
    """The diagnostic at its line in the user's file."""
    path = diagnostic.at.path
    if path not in between:
        return diagnostic
    module = next(m for m in program.modules if m.path == path)
    old, new = module.text.splitlines(), between[path].text.splitlines()
    for _, old_from, old_to, new_from, new_to in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if new_from < diagnostic.at.line <= new_to:
            offset = diagnostic.at.line - new_from  # in a changed block: the line at the same place of it
            line = max(1, min(old_from + offset, old_to))
            return replace(diagnostic, at=replace(diagnostic.at, line=line))
    return diagnostic
