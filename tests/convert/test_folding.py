"""What no edit is about is left out of the parse, and nobody can tell from the result."""

import pytest

from migrator.edits import Labelled, Remove
from migrator.facts.python.syntax import Span
from migrator.rewrite import apply
from migrator.rewrite.apply import apply_edits
from migrator.rewrite.folding import Folded, fold

LONG = "".join(f"def work_{n}(x):\n    y = x + {n}\n    return y\n\n\n" for n in range(3))
KINDS = {
    "long functions on both sides": f"import os\n\n\n{LONG}target()\n\n\n{LONG}",
    "a comment at the end of a block, indented like it": f"{LONG.rstrip()}\n    # about the block\n\n# about the target\ntarget()\n",
    "a comment above what is folded, and one behind it": f"# first\n{LONG}# second\n\n# third\ntarget()\n# fourth\n{LONG}# fifth\n",
    "decorators": f"@one\n@two(\n    3\n)\n{LONG}target()\n",
    "two statements on a line with the target": f"{LONG}a = 1; target(); b = 2\n{LONG}",
    "a string over several lines that looks like code": f'TEXT = """\ndef no():\n    target()\n"""\n\n{LONG}target()\n',
    "a page break between functions": f"{LONG}\f\n{LONG}target()\n",
    "other ends of lines inside a string": f"A = '\u2028 \x0b \x1c'\n{LONG}target()\n{LONG}",
    "indentation of two": f"{LONG.replace('    ', '  ')}if x:\n  target()\n",
    "indentation that only folded statements show": f"{LONG.replace('    ', '  ')}target()\n",
    "tabs first and spaces later": f"{LONG.replace('    ', chr(9))}if x:\n    target()\n",
    "no newline at the end": f"target()\n\n\n{LONG.rstrip()}",
    "a continued line": f"{LONG}total = 1 + \\\n    2\ntarget()\n",
    "blanks on the last line, behind a block": f"target()\n\n\n{LONG}    \n",
    "blanks on the last line, behind the target": f"{LONG}target()\n\n    \n",
    "empty lines at the end": f"{LONG}target()\n\n\n",
    "nothing else": "target()\n",
}


def removal(text: str) -> list[Labelled]:
    start = text.rindex("target()")
    at = Span("a.py", start, start + 8, text.count("\n", 0, start) + 1)
    return [Labelled(Remove(at), "MG999", "it goes", at)]


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("text", KINDS.values(), ids=KINDS)
def test_the_result_is_that_of_the_whole_text(text, newline, monkeypatch):
    text = text.replace("\n", newline)
    folded = apply_edits(text, removal(text))
    monkeypatch.setattr(apply, "fold", lambda whole, *_: Folded(whole))
    assert folded == apply_edits(text, removal(text))
    assert folded.text.count("target()") == text.count("target()") - 1


def test_statements_without_an_edit_are_one_name():
    text = f"import os\n{LONG}target()\n{LONG}"
    folded = fold(text, {text.index("target()")})
    assert len(folded.kept) == 2
    assert len(folded.text.splitlines()) < 10
    for name, kept in folded.kept.items():
        assert kept in text
        folded = Folded(folded.text.replace(name, kept))
    assert folded.text == text


def test_a_text_that_uses_the_name_is_parsed_whole():
    text = f"_folded_statements_0 = 1\n{LONG}target()\n"
    assert fold(text, {text.index("target()")}) == Folded(text)


def test_old_ends_of_lines_are_parsed_whole():
    text = f"{LONG}target()\n".replace("\n", "\r")
    assert fold(text, {text.index("target()")}) == Folded(text)
