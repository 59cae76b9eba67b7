"""Ask about fixes one by one in the terminal, as `git add -p` asks about hunks.

In: a conversion, and how to ask and to tell.  Out: a `Selection`.  Each fix is shown as it would change the files by itself;
what others stand on is asked first, and what falls with a refused fix is said and not asked.  Nothing is converted here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from codemods.base import Diagnostic
from migrator.convert.conversion import Conversion, FileChange
from migrator.convert.selection import Selection, fix_ids, refusals, told
from migrator.edits import AddHelper, AddImport, Labelled, ReplaceText
from migrator.formats.diff import diff_parts, rule_names
from migrator.load.source import rename_async_keywords, restore_async_keywords
from migrator.rewrite.apply import apply_edits
from migrator.rewrite.conflicts import EditConflict

_HELP = """\
y - take this fix
n - leave it out, and what depends on it
a - take this fix and all later ones in the file
d - leave this fix and all later ones in the file out
q - leave this fix and all that are left out
? - show this help
"""
_CHOICES = "y,n,a,d,q,?"


@dataclass(frozen=True, slots=True)
class Terminal:
    """How to ask (a prompt; the answer without white space, None at the end of input), tell a text, and paint a line of a
    diff (its kind, as `diff_parts` names it, and its text)."""

    ask: Callable[[str], str | None]
    tell: Callable[[str], None]
    paint: Callable[[str, str], str]


@dataclass(slots=True)
class _Answers:
    """What was decided so far: for each id whether the fix is taken; and decisions for the rest of a file, or of all."""

    taken: dict[str, bool] = field(default_factory=dict)
    files: dict[str, bool] = field(default_factory=dict)
    stopped: bool = False


def ask_for_selection(conversion: Conversion, terminal: Terminal) -> Selection:
    """Ask about every fix; gives both lists of the selection."""
    fixes = fix_ids(conversion)
    answers = _Answers()
    order = sorted(fixes, key=lambda name: -len(refusals(fixes, [name])))  # stable: else as in the files
    for number, name in enumerate(order, 1):
        if name in answers.taken:
            continue
        wanted = _decide(conversion, name, f"({number}/{len(order)})", answers, terminal)
        answers.taken[name] = wanted
        if not wanted:
            _take_back(fixes, name, answers, terminal)
    return Selection(
        conversion.entry,
        tuple(name for name in fixes if answers.taken[name]),
        tuple(name for name in fixes if not answers.taken[name]),
    )


def _decide(conversion: Conversion, name: str, place: str, answers: _Answers, terminal: Terminal) -> bool:
    fix = fix_ids(conversion)[name]
    if answers.stopped:
        return False
    if fix.at.path in answers.files:
        return answers.files[fix.at.path]
    terminal.tell(preview(conversion, name, terminal.paint))
    while True:
        answer = terminal.ask(f"{place} Take this fix [{_CHOICES}]? ")
        if answer is None or answer.lower() == "q":
            answers.stopped = True
            return False
        if answer.lower() in ("a", "d"):
            answers.files[fix.at.path] = answer.lower() == "a"
        if answer.lower() in ("y", "n", "a", "d"):
            return answer.lower() in ("y", "a")
        terminal.tell(_HELP)


def _take_back(fixes: Mapping[str, Diagnostic], name: str, answers: _Answers, terminal: Terminal) -> None:
    """Leave out what falls with a refused fix, and say what does not hold without it."""
    left_out = refusals(fixes, [other for other, wanted in answers.taken.items() if not wanted])
    if answers.stopped:
        return
    for lost in left_out[name].breaks:
        terminal.tell(f"  this breaks {told(lost)}\n")
    for other, refusal in left_out.items():
        if answers.taken.get(other) is not False:
            answers.taken[other] = False
            terminal.tell(f"  left out with it: {_titled(other, fixes[other])} ({refusal.why})\n")


def _titled(name: str, fix: Diagnostic) -> str:
    return f"{name} {rule_names().get(fix.rule, '')}".rstrip()


def preview(conversion: Conversion, name: str, paint: Callable[[str, str], str] = lambda _, line: line) -> str:
    """A fix with its reason and the diff that it makes by itself; helpers that it calls are only named."""
    diagnostic = fix_ids(conversion)[name]
    assert diagnostic.fix is not None
    safe = "" if diagnostic.applicability == "safe" else f", {diagnostic.applicability}"
    lines = ["\n", paint("file", f"{_titled(name, diagnostic)}{safe}\n"), f"  {diagnostic.fix.reason}\n"]
    try:
        for change in changes_of(conversion, [diagnostic]):
            lines += [
                paint(kind, _line(kind, text)) for kind, text in diff_parts(change) if not text.startswith("diff ")
            ]
    except EditConflict:  # it changes what another fix has made
        lines.append(f"  (changes {diagnostic.at.path}:{diagnostic.at.line} together with other fixes)\n")
    helpers = dict.fromkeys(edit.name for edit in diagnostic.fix.edits if isinstance(edit, AddHelper))
    if helpers:
        lines.append(f"  with {', '.join(helpers)}\n")
    return "".join(lines)


def _line(kind: str, text: str) -> str:
    """A line of the diff; the rule and the reason stand above it already."""
    return text.partition(" @@")[0] + " @@\n" if kind == "hunk" else text


def changes_of(conversion: Conversion, fixes: Sequence[Diagnostic]) -> Iterator[FileChange]:
    """What each file becomes with these fixes only, without imports and helpers; raises `EditConflict`."""
    edits = [
        Labelled(edit, one.rule, one.fix.reason, one.at)
        for one in fixes
        if one.fix is not None
        for edit in one.fix.edits
        if not isinstance(edit, AddHelper | AddImport)
    ]
    for change in conversion.changes:
        own = [one for one in edits if one.edit.at.path == change.path]
        if not own or change.before is None:
            continue
        if all(isinstance(one.edit, ReplaceText) for one in own):  # a file that is no Python
            labels = {one.edit.at.line: frozenset({one.label}) for one in own}
            yield FileChange(change.path, change.before, _replaced(change.before, own), change.source, labels, labels)
        else:
            made = apply_edits(rename_async_keywords(change.before), own)
            after = restore_async_keywords(made.text)
            yield FileChange(change.path, change.before, after, change.source, made.before, made.after)


def _replaced(text: str, edits: Sequence[Labelled]) -> str:
    for one in sorted(edits, key=lambda one: one.edit.at.start, reverse=True):
        if isinstance(one.edit, ReplaceText):
            text = text[: one.edit.at.start] + one.edit.text + text[one.edit.at.end :]
    return text
