"""What people expect of any tool of this kind: colours, pager, figures, completion, a hook."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from .conftest import ASKS, PROGRAM
from .terminal import ROOT, OnTerminal

GREEN = b"\x1b[32m+"
HOOKS = ROOT / ".pre-commit-hooks.yaml"


# ---------------------------------------------------------------- the diff
def test_unchanged_lines_around_a_change_are_as_many_as_asked(cli, train):
    few = cli("convert", "train.py", "--diff-context", "0").text
    assert not [line for line in few.splitlines() if line.startswith(" ")]
    assert cli("convert", "train.py", "--diff-context", "50").text.count("\n@@ ") == 1
    assert few.count("\n@@ ") > cli("convert", "train.py").text.count("\n@@ ")
    assert cli("convert", "train.py", "--diff-context", "-1").code == 2


@pytest.mark.parametrize(
    ("words", "variables", "coloured"),
    [
        ([], {}, False),
        ([], {"FORCE_COLOR": "1"}, True),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
        (["--color=never"], {"FORCE_COLOR": "1"}, False),
        (["--color", "auto"], {}, False),
    ],
)
def test_the_flag_decides_on_colours_before_the_environment(cli, train, monkeypatch, words, variables, coloured):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (GREEN in cli("convert", "train.py", *words).stdout) is coloured


def test_quiet_shows_only_what_a_person_must_decide(cli, train):
    assert cli("convert", "train.py", "--quiet") == cli("convert", "train.py", "-q")
    done = cli("convert", "train.py", "-q", "--check")
    assert (done.code, done.stdout, done.stderr) == (1, b"", "")
    train.write_text(ASKS)
    done = cli("convert", "train.py", "-q")
    assert (done.code, done.stdout) == (3, b"")
    assert done.stderr.startswith("1 place for you to decide:\n  train.py:17: MG901")
    assert done.stderr.count("\n") == 2


def test_verbose_says_how_long_each_stage_took(cli, train):
    told = cli("convert", "train.py", "--verbose").stderr
    rows = dict(re.findall(r"^  ([\w ]+?) +(\d+\.\d{3}) s$", told, re.MULTILINE))
    assert list(rows) == ["reading", "facts and rules", "rewriting", "showing", "the rest", "all"]
    parts = sum(float(seconds) for name, seconds in rows.items() if name != "all")
    assert abs(parts - float(rows["all"])) < 0.01
    assert "time:" not in cli("convert", "train.py").stderr


def test_stats_are_one_line_with_the_figures(cli, train):
    done = cli("convert", "train.py", "--stats", "--quiet")
    found = re.fullmatch(
        r"stats: programs 1, unreadable 0, fixes 7, questions 0, notes 1, files 1, lines \+(\d+) -(\d+), seconds [\d.]+\n",
        done.stderr,
    )
    diff = cli("convert", "train.py", "--diff-context", "0").text.splitlines()
    added = [line for line in diff if line.startswith("+") and not line.startswith("+++ ")]
    removed = [line for line in diff if line.startswith("-") and not line.startswith("--- ")]
    assert found is not None, done.stderr
    assert (int(found[1]), int(found[2])) == (len(added), len(removed))


# ---------------------------------------------------------------- pager
def pager(folder: Path) -> str:
    """A pager that says what it was given."""
    script = folder / "pager.py"
    script.write_text(
        "import os, sys\nprint('PAGED', os.environ['LESS'], len(sys.stdin.read()) > 1000, sys.argv[1:])\n"
    )
    return f"{sys.executable} {script} 'a b'"


def test_on_a_terminal_the_diff_goes_through_the_pager_and_the_summary_comes_behind(train, tmp_path):
    with OnTerminal(tmp_path, "train.py", PAGER=pager(tmp_path)) as terminal:
        seen = terminal.until(None)
        assert terminal.end() == 0
    assert seen.startswith("PAGED FRX True ['a b']\r\nconverted 7 places in 1 file:")


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        (("--no-pager",), {}),
        ((), {"TERM": "dumb"}),
        ((), {"MGMIGRATE_PAGER": "cat"}),
        ((), {"PAGER": "no-such-program"}),
    ],
    ids=["asked", "dumb terminal", "cat", "missing"],
)
def test_without_a_pager_the_diff_is_printed(train, tmp_path, words, variables):
    with OnTerminal(tmp_path, "train.py", *words, **{"PAGER": pager(tmp_path), **variables}) as terminal:
        seen = terminal.until(None)
        assert terminal.end() == 0
    assert "PAGED" not in seen
    assert "set_epoch(epoch)" in seen
    assert ("\x1b[32m+" in seen) is (variables.get("TERM") != "dumb")


def test_in_a_pipe_nobody_is_asked_to_page(cli, train, tmp_path, monkeypatch):
    monkeypatch.setenv("PAGER", pager(tmp_path))
    assert cli("convert", "train.py").stdout.startswith(b"diff --git")


# ---------------------------------------------------------------- completion
def complete(shell: str, **variables: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "_MGMIGRATE_COMPLETE": f"complete_{shell}", **variables}
    done = subprocess.run(
        [sys.executable, "-m", "migrator"], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def test_shells_complete_options_and_rule_ids():
    given = complete("bash", COMP_WORDS="mgmigrate convert --diff", COMP_CWORD="2")
    assert given.split() == ["--diff-context"]
    given = complete("zsh", _TYPER_COMPLETE_ARGS="mgmigrate convert --select MG30")
    assert '"MG301":"wrap-model"' in given
    given = complete("fish", _TYPER_COMPLETE_ARGS="mgmigrate explain MG2", _TYPER_COMPLETE_FISH_ACTION="get-args")
    assert all(re.fullmatch(r"MG2\d\d\t[a-z-]+", line) for line in given.splitlines())


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_the_script_for_bash_completes_in_bash(tmp_path):
    program = tmp_path / "mgmigrate"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m migrator "$@"\n')
    program.chmod(0o755)
    script = (
        'eval "$(_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION=1 mgmigrate --show-completion bash)"\n'
        "COMP_WORDS=(mgmigrate convert --save); COMP_CWORD=2\n_mgmigrate_completion mgmigrate\necho ${COMPREPLY[@]}\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.split() == ["--save-selection"]


# ---------------------------------------------------------------- pre-commit
def test_the_hook_runs_what_it_says_and_stops_a_commit_that_brings_data_parallel(cli, tmp_path):
    (hook,) = yaml.safe_load(HOOKS.read_text(encoding="utf-8"))
    assert (hook["id"], hook["language"], hook["types"]) == ("mgmigrate-check", "python", ["python"])
    program, *words = [*hook["entry"].split(), *hook.get("args", [])]
    assert program == "mgmigrate"
    (tmp_path / "old.py").write_text(PROGRAM)
    (tmp_path / "plain.py").write_text("print(1)\n")
    assert cli(*words, "plain.py").code == 0
    stopped = cli(*words, "plain.py", "old.py")
    assert stopped.code == 1
    assert (tmp_path / "old.py").read_text() == PROGRAM


def test_report_and_format_do_not_depend_on_each_other(cli, train, tmp_path):
    done = cli("convert", "train.py", "--format", "github", "--report", "r.json")
    assert done.text.startswith("::warning ")
    assert json.loads((tmp_path / "r.json").read_text())["version"] == 1
