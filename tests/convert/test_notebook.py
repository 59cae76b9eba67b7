"""Notebooks: cells as one program, and back into the file with nothing else changed."""

import difflib
import json

import pytest

from migrator.load.source import SourceError
from migrator.notebooks.notebook import place_in_cell, read_notebook

from . import notebooks

LAYOUTS = {
    "as Jupyter writes it": lambda d: json.dumps(d, indent=1, ensure_ascii=False) + "\n",
    "indented by four": lambda d: json.dumps(d, indent=4, ensure_ascii=False),
    "on one line": lambda d: json.dumps(d, ensure_ascii=False),
    "without blanks": lambda d: json.dumps(d, separators=(",", ":")),
    "escaped": lambda d: json.dumps(d, indent=2),
    "with a byte order mark": lambda d: "\ufeff" + json.dumps(d, indent=1, ensure_ascii=False),
}
MAGICS = [
    "%load_ext autoreload",
    "%matplotlib inline",
    "%cd ..",
    "!ls -l | head",
    "!!ls",
    "?print",
    "print?",
    "model.fit??",
    "files = !ls *.png",
    "here, there = %env",
    "%time work(1)",
    "%time x = work(1)",
    "!echo one \\\n  two",
    "if True:\n    !mkdir -p out\n    x = 1",
    "%%bash\nfor f in *; do echo $f; done",
    "%%writefile a.py\nx = 1\n",
    "%%capture out\nx = 1\nprint(x)",
    "%%time\n\nx = [1,\n     2]\n%env",
    "text = '''\n%not magic\n!nor this\n'''\n!pwd",
    "x = (3\n% 2)\n%env",
    "x = 5 % 3  # why?\n%env",
    "def f():\n    # so?\n    return 1\nf?",
    "",
    "# only words",
    "%env\n\n",
]


def read(raw: str, path: str = "n.ipynb"):
    return read_notebook(path, raw.encode())


@pytest.mark.parametrize("lay_out", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("joined", [False, True], ids=["lines", "one text"])
def test_a_notebook_that_is_not_changed_comes_back_byte_for_byte(lay_out, joined):
    raw = lay_out(notebooks.document(joined=joined))
    found = read(raw)
    assert found.encode(found.text) == raw.encode()


@pytest.mark.parametrize("lay_out", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("joined", [False, True], ids=["lines", "one text"])
def test_only_the_source_of_a_changed_cell_differs_in_the_file(lay_out, joined):
    old = notebooks.document(joined=joined)
    new = notebooks.document(
        [cell.replace("lr=0.1)", "lr=0.2)\nprint('größer')") for cell in notebooks.CELLS], joined=joined
    )
    raw, wanted = lay_out(old), lay_out(new)
    found = read(raw)
    changed = found.text.replace("lr=0.1)", "lr=0.2)\nprint('größer')")
    assert json.loads(found.encode(changed).decode("utf-8-sig")) == new
    assert found.encode(changed) == wanted.encode()


@pytest.mark.parametrize("text", MAGICS)
def test_magics_leave_python_of_as_many_lines_and_come_back_as_they_were(text):
    raw = notebooks.text(["y = 1", text, "z = 2"])
    found = read(raw)
    compile(found.text, "n", "exec")
    assert "%env" not in found.text and "!" not in found.text.replace("!nor", "")
    assert dict(found.split(found.text)) == {1: "y = 1", 2: text, 3: "z = 2"}
    more = found.text.replace("y = 1", "y = 1\ny = 2").replace("z = 2", "z = 3")
    assert notebooks.sources(found.encode(more).decode()) == ["y = 1\ny = 2", text, "z = 3"]
    line = found.text[: found.text.index("z = 2")].count("\n") + 1
    assert place_in_cell(found.text, line) == (3, 1)


def test_a_magic_goes_along_with_a_statement_that_is_indented():
    found = read(notebooks.text(["x = 1\n%time work(1)\n!ls"]))
    lines = found.text.splitlines()
    text = "\n".join([*lines[:2], "if x:", *(f"    {line}" for line in lines[2:])]) + "\n"
    assert notebooks.sources(found.encode(text).decode()) == ["x = 1\nif x:\n    %time work(1)\n    !ls"]


def test_lines_of_a_list_that_stay_keep_their_spelling():
    raw = notebooks.text(["x = 'A'\ny = 1"]).replace("'A'", "'\\u0041'")
    found = read(raw)
    assert "A" in found.text
    after = found.encode(found.text.replace("y = 1", "y = 2")).decode()
    (line,) = [row for row in difflib.ndiff(raw.splitlines(), after.splitlines()) if row.startswith("+ ")]
    assert "y = 2" in line


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ("", "is not a notebook"),
        ("{", "is not a notebook"),
        ("[1]", "is not a notebook"),
        ('{"a": 1}', "is not a notebook: it has no cells"),
        ('{"worksheets": []}', "is a notebook of an old format; open it in Jupyter and save it"),
        (
            json.dumps({**notebooks.document(), "metadata": {"kernelspec": {"language": "R"}}}),
            "is a notebook in r, not",
        ),
        (notebooks.text(["x = 1", "def f(:\n    pass"]), r"cell 2:1:7: cannot be parsed"),
        (notebooks.text(["x = 1\n\nif x:"]), r"cell 1:3:\d: cannot be parsed: expected an indented block"),
        (notebooks.text(["x = " + "-" * 100_000 + "1"]), "cell 1: is nested too deeply"),
        ('{"cells": ' + "[" * 100_000, "is not a notebook"),
    ],
    ids=["empty", "half", "list", "object", "old", "R", "syntax error", "unfinished", "deep", "deep JSON"],
)
def test_what_is_no_python_notebook_is_one_clear_line(raw, told):
    with pytest.raises(SourceError, match=told):
        read(raw)


def test_undecodable_bytes_are_one_clear_line():
    with pytest.raises(SourceError, match="cannot be decoded"):
        read_notebook("n.ipynb", b'{"cells": "\xff"}')
