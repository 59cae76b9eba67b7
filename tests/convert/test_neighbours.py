"""Which definitions of a shared module another program takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.facts.python.neighbours import other_programs_using
from migrator.load.project import load_project

LOOP = "def train():\n    pass\n\n\ndef score():\n    pass\n"


@pytest.mark.parametrize(
    ("demo", "is_user"),
    [
        ("from loop import train\n\ntrain()\n", True),
        ("from loop import *\n\ntrain()\n", True),
        ("import loop\n\nloop.train()\n", True),
        ("from loop import score\n\nprint('train', score())\n", False),
        ("from loop import score\n\nmodel.train()\n", False),
        ("import other\n\nother.train()\n", False),
    ],
)
def test_a_program_uses_what_it_imports_and_not_what_it_mentions(tmp_path: Path, demo: str, is_user: bool) -> None:
    (tmp_path / "loop.py").write_text(LOOP)
    (tmp_path / "main.py").write_text("from loop import train\n\ntrain()\n")
    (tmp_path / "demo.py").write_text(demo)
    project = load_project(tmp_path / "main.py")
    found = other_programs_using({(str(tmp_path / "loop.py"), "train")}, project.modules, tmp_path)
    assert [Path(user).name for user in found.values()] == (["demo.py"] if is_user else [])
