"""The conversion as a libcst codemod."""

import subprocess
import sys
from pathlib import Path

import libcst
import pytest
from libcst.codemod import CodemodContext, SkipFile

import codemods
from codemods.options import Options
from migrator.convert.pipeline import convert_program
from migrator.load.source import Source

from .conftest import ASKS, PLAIN, PROGRAM


def run(source: str, folder: Path) -> tuple[str, CodemodContext]:
    context = CodemodContext(filename=str(folder / "train.py"))
    return codemods.ConvertToDDP(context).transform_module(libcst.parse_module(source)).code, context


def test_one_module_with_its_helpers_inside(tmp_path):
    after, _ = run(PROGRAM, tmp_path)
    path = tmp_path / "train.py"
    inline = convert_program(path, Options(inline_helpers=True), Source(str(path), PROGRAM))
    assert [change.after for change in inline.changes] == [after]
    assert "def setup_distributed" in after
    compile(after, "train.py", "exec")


def test_a_second_run_changes_nothing(tmp_path):
    after, _ = run(PROGRAM, tmp_path)
    assert run(after, tmp_path)[0] == after


def test_other_programs_stay(tmp_path):
    assert run(PLAIN, tmp_path)[0] == PLAIN


def test_questions_are_warnings(tmp_path):
    _, context = run(ASKS, tmp_path)
    assert any("MG901" in warning for warning in context.warnings)


def test_a_program_of_several_modules_is_left_to_the_command_line(tmp_path):
    (tmp_path / "wrapping.py").write_text("from torch import nn\n\n\ndef wrap(net):\n    return nn.DataParallel(net)\n")
    source = PROGRAM.replace("nn.DataParallel(", "wrap(").replace(
        "import argparse\n", "import argparse\nfrom wrapping import wrap\n"
    )
    with pytest.raises(SkipFile, match="mgmigrate convert"):
        run(source, tmp_path)


def test_only_known_names():
    with pytest.raises(AttributeError, match="no attribute 'ConvertToTensorFlow'"):
        _ = codemods.ConvertToTensorFlow


def test_the_codemod_runner(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    options = ["-x", "codemods.ConvertToDDP", "--no-format", "--jobs", "1"]
    words = [sys.executable, "-m", "libcst.tool", "codemod", *options, "train.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "train.py").read_text() == run(PROGRAM, tmp_path)[0]
