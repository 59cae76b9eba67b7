"""Every rule has examples of what it changes or tells and of what it leaves alone; they do what they say."""

from dataclasses import replace
from pathlib import Path

import pytest

from codemods.examples import FOLDER, Example, examples
from codemods.registry import load_rules
from migrator.convert.pipeline import convert_program
from migrator.load.source import Source

from .tools import ENTRY, check_conversion

# A notebook is no lines of a program: tests/convert has some.
WITHOUT = {"MG111"}
EXAMPLES = [example for rule in load_rules() for example in examples(rule.id)]


def names(example: Example) -> str:
    first = next(line.strip() for line in example.text.splitlines() if line.strip())
    return f"{example.rule} {example.kind} {example.flags} {first}"


def test_every_rule_has_an_example_of_both_kinds_and_no_other_file_is_there():
    rules = {rule.id for rule in load_rules()}
    kinds = {rule: {example.kind for example in examples(rule)} for rule in rules}
    lacking = {rule for rule in rules if not {"changed", "told"} & kinds[rule] or "left alone" not in kinds[rule]}
    assert lacking == WITHOUT, "write codemods/examples/ID.py (see codemods/examples/__init__.py)"
    assert {path.stem for path in FOLDER.glob("MG*.py")} == rules - WITHOUT


def test_a_rule_that_changes_something_shows_a_change():
    for rule in load_rules():
        if rule.applicability != "display-only" and rule.id not in WITHOUT:
            assert any(example.kind == "changed" for example in examples(rule.id)), rule.id


@pytest.mark.parametrize("example", EXAMPLES, ids=names)
def test_an_example_does_what_it_says(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in example.beside:
        Path(name).write_text(text)
    conversion = convert_program(ENTRY, example.options, Source(str(ENTRY), example.program))
    check_conversion(replace(conversion, changes=tuple(c for c in conversion.changes if c.path.endswith(".py"))))
    own = [diagnostic for diagnostic in conversion.diagnostics if diagnostic.rule == example.rule]
    changed, told = any(d.fix for d in own), any(d.fix is None for d in own)
    assert {"changed": changed, "told": told, "left alone": not own}[example.kind], own
    if example.kind == "changed":
        overlay = {Path(c.path).resolve(): Source(c.path, c.after) for c in conversion.changes}
        again = convert_program(ENTRY, example.options, overlay=overlay)
        assert not [d for d in again.diagnostics if d.rule == example.rule and d.fix], "a second run changes it again"
