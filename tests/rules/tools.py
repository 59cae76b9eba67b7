"""Check a rule on small programs: what it must leave alone, and what it must make of the rest.

Every conversion is checked for what must hold of all of them: the result parses, a second run changes nothing, every hunk
is labelled with the rules behind it, and what is not in a hunk is byte for byte as it was.
"""

import ast
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.conversion import Conversion
from migrator.convert.pipeline import convert_program
from migrator.formats.diff import hunks
from migrator.load.source import Source

ENTRY = Path("train.py")
# What almost every program has: `{}` is where a case puts its lines, in the training loop's function.
TRAINING = """\
import os
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    data = TensorDataset(torch.randn(64, 4), torch.randint(2, (64,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for inputs, targets in loader:
            loss = nn.functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
{}

if __name__ == "__main__":
    main()
"""


def training(lines: str, depth: int = 2) -> str:
    """A training program with some lines at the end of each epoch (depth 2) or of the program (depth 1)."""
    return TRAINING.format(textwrap.indent(textwrap.dedent(lines).strip("\n"), "    " * depth) + "\n")


def convert(source: str, **options: object) -> Conversion:
    """Convert one file, with nothing beside it on the disk, and check what holds of every conversion."""
    return _converted(source, Options(**options))  # type: ignore[arg-type]


@lru_cache(maxsize=32)
def _converted(source: str, chosen: Options) -> Conversion:
    with _alone():
        conversion = convert_program(ENTRY, chosen, Source(str(ENTRY), source))
        check_conversion(conversion)
        if conversion.changes and not chosen.select and not chosen.ignore:
            overlay = {Path(c.path).resolve(): Source(c.path, c.after) for c in conversion.changes}
            again = convert_program(ENTRY, chosen, overlay=overlay)
            assert not again.changes, f"a second run changes it again:\n{again.changes[0].after}"
    return conversion


@contextmanager
def _alone() -> Iterator[None]:
    """In an empty folder: a file that lies beside the tests is not the program's."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield


def check_conversion(conversion: Conversion) -> None:
    """What holds of every conversion."""
    for change in conversion.changes:
        ast.parse(change.after)
        rebuilt: list[str] = []
        old = (change.before or "").splitlines(keepends=True)
        place = 0
        for hunk in hunks(change, context=0):
            assert hunk.labels, f"a hunk without a rule: {hunk.lines}"
            assert all(rule.startswith("MG") and reason for rule, reason in hunk.labels)
            start = hunk.old_start - 1
            rebuilt += old[place:start]
            rebuilt += [line[1:] for line in hunk.lines if line.startswith("+")]
            place = start + hunk.old_lines
        assert "".join([*rebuilt, *old[place:]]) == change.after
    for diagnostic in conversion.diagnostics:
        assert diagnostic.message
        assert (diagnostic.fix is None) == (diagnostic.level != "fix")


def check_noop(source: str, rule: str, **options: object) -> Conversion:
    """The rule has nothing to say about the program."""
    conversion = convert(source, **options)
    found = [d for d in conversion.diagnostics if d.rule == rule]
    assert not found, found
    return conversion


def check_rewrite(source: str, expected: str, rule: str, **options: object) -> Conversion:
    """The rule changes the program, so that a block of lines (dedented, in this order) stands in what comes out."""
    conversion = convert(source, **options)
    assert any(d.rule == rule and d.fix for d in conversion.diagnostics), f"{rule} changes nothing"
    after = conversion.changes[0].after
    wanted = textwrap.dedent(expected).strip("\n").splitlines()
    if not _holds_block(after.splitlines(), wanted):
        pytest.fail(f"not found:\n{chr(10).join(wanted)}\n\nin:\n{after}")
    return conversion


def _holds_block(lines: list[str], wanted: list[str]) -> bool:
    """True when the wanted lines follow each other somewhere, all with the same extra indentation."""
    for start in range(len(lines) - len(wanted) + 1):
        block = lines[start : start + len(wanted)]
        if textwrap.dedent("\n".join(block)) == "\n".join(wanted):
            return True
    return False


def check_question(source: str, expected: str, rule: str, **options: object) -> Conversion:
    """The rule leaves a place to a person, and says what there is to do."""
    return _check_told(source, expected, rule, "question", **options)


def check_note(source: str, expected: str, rule: str, **options: object) -> Conversion:
    """The rule changes nothing and says something worth knowing."""
    return _check_told(source, expected, rule, "note", **options)


def _check_told(source: str, expected: str, rule: str, level: str, **options: object) -> Conversion:
    conversion = convert(source, **options)
    messages = [d.message for d in conversion.diagnostics if d.rule == rule and d.level == level]
    assert any(expected in message for message in messages), messages
    return conversion
