"""The command line as its users meet it: what it prints, what it writes, and how it ends."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ASKS, PLAIN, PROGRAM

GIT = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", **os.environ}
GIT |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


def git(folder: Path, *words: str, stdin: bytes | None = None) -> bytes:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, env=GIT, input=stdin).stdout


def files(folder: Path) -> dict[str, bytes]:
    found = (p for p in sorted(folder.rglob("*")) if p.is_file() and ".git" not in p.parts)
    return {str(p.relative_to(folder)): p.read_bytes() for p in found}


# ---------------------------------------------------------------- convert
def test_convert_prints_a_diff_and_a_summary_and_changes_nothing(cli, train):
    done = cli("convert", "train.py", "--to", "ddp")
    assert done.code == 0, done.stderr
    assert done.text.startswith("diff --git a/train.py b/train.py\n--- a/train.py\n+++ b/train.py\n@@ ")
    headers = [line for line in done.text.splitlines() if line.startswith("@@")]
    assert headers
    assert all("@@ MG" in line for line in headers)
    assert "converted" in done.stderr
    assert done.stderr.rstrip().endswith("torchrun --standalone --nproc_per_node=gpu -- train.py")
    assert train.read_text() == PROGRAM


def test_what_a_person_must_decide_comes_first(cli, train):
    train.write_text(ASKS)
    done = cli("convert", "train.py")
    assert done.code == 3
    assert done.stderr.splitlines()[0].endswith("for you to decide:")
    assert "train.py:17: MG901" in done.stderr.splitlines()[1]


def test_a_program_without_data_parallel(cli, train):
    train.write_text(PLAIN)
    done = cli("convert", "train.py")
    assert (done.code, done.stdout) == (0, b"")
    assert "nothing to do" in done.stderr


def test_data_parallel_only_in_comments(cli, train):
    train.write_text("# nn.DataParallel(model)\nprint(1)\n")
    done = cli("convert", "train.py", "--check")
    assert (done.code, done.stdout) == (0, b"")
    assert "only mentioned" in done.stderr


def test_check_is_1_when_something_would_change(cli, train):
    assert cli("convert", "train.py", "--check").code == 1
    assert train.read_text() == PROGRAM


def test_check_is_3_when_a_person_must_decide(cli, train):
    train.write_text(ASKS)
    assert cli("convert", "train.py", "--check").code == 3


def test_write_then_nothing_is_left_to_change(cli, train):
    done = cli("convert", "train.py", "--write")
    assert done.code == 0, done.stderr
    assert train.read_text() != PROGRAM
    compile(train.read_text(), "train.py", "exec")
    again = cli("convert", "train.py", "--check")
    assert (again.code, again.stdout) == (0, b"")


def test_write_keeps_mode_and_leaves_nothing_else_behind(cli, train, tmp_path):
    train.chmod(0o750)
    assert cli("convert", "train.py", "--write").code == 0
    assert train.stat().st_mode & 0o777 == 0o750
    assert not [p for p in tmp_path.iterdir() if p.suffix != ".py"]


def test_write_through_a_link_keeps_the_link(cli, train, tmp_path):
    (tmp_path / "src").mkdir()
    train.rename(tmp_path / "src" / "real.py")
    train.symlink_to(tmp_path / "src" / "real.py")
    done = cli("convert", "train.py", "--write")
    assert done.code == 0, done.stderr
    assert train.is_symlink()
    assert "DistributedDataParallel" in train.read_text() or "SplitDataParallel" in train.read_text()


def test_output_leaves_the_original_alone(cli, train, tmp_path):
    done = cli("convert", "train.py", "--output", "new/deep")
    assert done.code == 0, done.stderr
    assert train.read_text() == PROGRAM
    assert (tmp_path / "new/deep/train.py").read_text() != PROGRAM


def test_output_of_a_folder_keeps_its_shape(cli, tmp_path):
    for name in ("proj/a/one.py", "proj/b/two.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(PROGRAM)
    done = cli("convert", "proj", "--output", "out")
    assert done.code == 0, done.stderr
    assert done.stderr.startswith("2 programs: 2 converted\n")
    assert {"a/one.py", "b/two.py"} <= set(files(tmp_path / "out"))


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.encode(),
        lambda t: t.replace("\n", "\r\n").encode(),
        lambda t: b"\xef\xbb\xbf" + t.encode(),
        lambda t: t.rstrip("\n").encode(),
        lambda t: ("# coding: latin-1\n" + t.replace('"model.pt"', '"größe.pt"')).encode("latin-1"),
        lambda t: t.replace("import torch\n", "import torch  # \x0c\x1c one\rtwo = 2\n", 1).encode(),
        lambda t: t.replace("    ", "\t").encode(),
        lambda t: t.rstrip("\n").replace("main()\n\n\nif", "main()\n\n\n\x0cif").encode() + b"\n\n# end",
    ],
    ids=["plain", "crlf", "bom", "no final newline", "latin-1", "odd separators", "tabs", "form feed"],
)
def test_git_apply_of_the_diff_gives_what_output_gives(cli, tmp_path, change):
    check_git_apply(cli, tmp_path, change(PROGRAM), "train.py")


@pytest.mark.parametrize("name", ["my train.py", 'a"b\\c.py', "größe.py", "-x.py"])
def test_git_apply_of_a_file_with_an_odd_name(cli, tmp_path, name):
    check_git_apply(cli, tmp_path, PROGRAM.encode(), name)


def check_git_apply(cli, tmp_path: Path, data: bytes, name: str) -> None:
    (tmp_path / name).write_bytes(data)
    done = cli("convert", "--output", "out", "--", name)
    assert done.code == 0, done.stderr
    git(tmp_path, "init", "-q", "repo")
    (tmp_path / "repo" / name).write_bytes(data)
    git(tmp_path / "repo", "apply", "-", stdin=done.stdout)
    assert files(tmp_path / "repo") == files(tmp_path / "out")
    assert (tmp_path / "out" / name).read_bytes() != data


def test_git_apply_of_a_diff_of_files_given_by_absolute_and_upward_paths(cli, tmp_path, monkeypatch):
    (tmp_path / "below" / "deep").mkdir(parents=True)
    (tmp_path / "below" / "train.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path / "below" / "deep")
    done = cli("convert", "../train.py")
    assert b" a/../" not in done.stdout
    monkeypatch.chdir(tmp_path)
    absolute = cli("convert", tmp_path / "below" / "train.py")
    assert absolute.stdout.startswith(b"diff --git a/below/train.py b/below/train.py\n")


def test_json_has_edits_rules_and_reasons(cli, train):
    done = cli("convert", "train.py", "--format", "json")
    document = json.loads(done.stdout)
    assert done.code == 0
    assert (document["version"], document["errors"]) == (1, [])
    (program,) = document["programs"]
    assert (program["entry"], program["outcome"], program["exit_code"]) == ("train.py", "converted", 0)
    assert program["launch"].startswith("torchrun ")
    fixes = [d for d in program["diagnostics"] if d["level"] == "fix"]
    assert all(d["rule"].startswith("MG") and d["message"] and d["edits"] and d["line"] > 0 for d in fixes)
    hunks = [hunk for file in program["files"] for hunk in file["hunks"]]
    assert hunks
    assert all(hunk["rules"] and all(r["id"] and r["reason"] for r in hunk["rules"]) for hunk in hunks)


def test_json_tells_errors_too(cli, tmp_path):
    (tmp_path / "a.py").write_text("x = (\n")
    done = cli("convert", "a.py", "--format", "json")
    assert done.code == 4
    assert json.loads(done.stdout)["errors"] == [
        {"path": "a.py", "line": 1, "column": 5, "message": "cannot be parsed: '(' was never closed"}
    ]


def test_ignore_and_select_by_id_and_prefix(cli, train):
    everything = cli("convert", "train.py").stderr
    assert "MG501" in everything
    ignored = cli("convert", "train.py", "--ignore", "MG501")
    assert "MG501 write-once ×1" not in ignored.stderr
    assert "get_rank() == 0:\n" not in ignored.text
    assert ignored.code == 0
    said = "left out by --select or --ignore: only one process writes; this breaks promise 4, once"
    assert f"MG501 write-once: {said}" in ignored.stderr
    assert "converted" not in cli("convert", "train.py", "--ignore", "mg1,MG5").stderr
    only = cli("convert", "train.py", "--select", "mg101,MG301,MG501")
    assert {line.split()[0] for line in only.stderr.splitlines() if "×" in line} == {"MG101", "MG301", "MG501"}


def test_what_depends_on_an_ignored_rule_is_left_out_with_it(cli, train):
    done = cli("convert", "train.py", "--ignore", "MG201")
    assert "wrap_model(" in done.text
    assert "set_epoch" not in done.text
    assert "MG202 set-epoch: left out with MG201@train.py:13 (it builds on shard-loader)" in done.stderr
    done = cli("convert", "train.py", "--ignore", "MG101")
    assert (done.text, done.code) == ("", 0)
    assert "MG301 wrap-model: left out with MG101@train.py:27 (without it there is one process only)" in done.stderr


def test_an_unknown_rule_is_a_usage_error(cli, train):
    done = cli("convert", "train.py", "--ignore", "MG999")
    assert done.code == 2
    assert "MG999" in done.stderr


def test_a_suppression_is_obeyed_and_an_idle_one_reported(cli, train):
    train.write_text(
        PROGRAM.replace('"model.pt")', '"model.pt")  # mgmigrate: ignore[MG501]').replace(
            "import argparse", "import argparse  # mgmigrate: ignore[MG501]"
        )
    )
    done = cli("convert", "train.py")
    assert "MG501 write-once" not in done.stderr.split("worth knowing")[0]
    assert "train.py:1: MG003" in done.stderr
    assert "train.py:23" not in done.stderr


def test_standard_input(cli):
    done = cli("convert", "-", stdin=PROGRAM.encode())
    assert done.code == 0
    assert done.stdout.startswith(b"diff --git a/stdin.py b/stdin.py\n")
    assert cli("convert", "-", "--check", stdin=PROGRAM.encode()).code == 1
    broken = cli("convert", "-", stdin=b"x = (\n")
    assert broken.code == 4
    assert "stdin.py:1:5:" in broken.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["convert"],
        ["convert", "train.py", "--to", "horovod"],
        ["convert", "train.py", "--nonsense"],
        ["convert", "train.py", "--keep-prefix"],
        ["convert", "train.py", "--write", "--output", "out"],
        ["convert", "train.py", "--write", "--check"],
        ["convert", "-", "train.py"],
        ["convert", "-", "--write"],
        ["convert", "train.py", "--format", "yaml"],
        ["explain", "MG999"],
        ["nonsense"],
    ],
    ids=" ".join,
)
def test_usage_errors(cli, train, words):
    done = cli(*words)
    assert done.code == 2
    assert done.stderr.strip()
    assert train.read_text() == PROGRAM


# ---------------------------------------------------------------- bad input
def _null(path: Path) -> None:
    path.write_bytes(b"\x7fELF\0\0")


def _undecodable(path: Path) -> None:
    path.write_bytes(b"x = '\xff'\n")


def _syntax(path: Path) -> None:
    path.write_text("def f(:\n")


def _link(path: Path) -> None:
    path.symlink_to(path.with_name("gone.py"))


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _nothing(path: Path) -> None:
    pass


def _deep(path: Path) -> None:
    path.write_text(PROGRAM + "x = " + "-" * 100_000 + "1\n")


BAD = [_null, _undecodable, _syntax, _link, _loop, _pipe, _nothing, _deep]


@pytest.mark.parametrize("make", BAD, ids=lambda make: make.__name__.strip("_"))
@pytest.mark.parametrize("how", [[], ["--write"], ["--output", "out"], ["--check"]], ids=" ".join)
def test_bad_input_is_one_clear_line_and_exit_code_4(cli, tmp_path, make, how):
    make(tmp_path / "bad.py")
    done = cli("convert", "bad.py", *how)
    assert done.code == 4
    assert done.stdout == b""
    lines = done.stderr.splitlines()
    assert lines[0].startswith("mgmigrate: bad.py:")
    assert len(lines) == 1 + (lines[-1] == "mgmigrate: nothing was written")
    assert not (tmp_path / "out").exists()


def test_a_sum_of_some_hundred_terms_is_no_trouble(cli, train):
    train.write_text(PROGRAM.replace("args = ", "total = " + " + ".join(["1"] * 300) + "\n    args = "))
    assert cli("convert", "train.py").code == 0


@pytest.mark.parametrize("make", [_null, _undecodable, _syntax, _deep], ids=lambda make: make.__name__.strip("_"))
def test_bad_files_in_a_tree_stop_no_other(cli, train, tmp_path, make):
    make(tmp_path / "bad.py")
    with (tmp_path / "bad.py").open("ab") as stream:
        stream.write(b"\n# DataParallel\n")
    done = cli("convert", ".", "--write")
    assert done.code == 3
    assert "bad.py" in done.stderr
    assert train.read_text() != PROGRAM


def test_a_bad_file_beside_a_good_one_stops_the_writing(cli, train, tmp_path):
    _syntax(tmp_path / "bad.py")
    done = cli("convert", "train.py", "bad.py", "--write")
    assert done.code == 4
    assert train.read_text() == PROGRAM


def test_a_bad_module_that_the_program_imports_is_reported(cli, train, tmp_path):
    train.write_text("import helper\n" + PROGRAM)
    _syntax(tmp_path / "helper.py")
    done = cli("convert", "train.py")
    assert "helper.py:1: MG002" in done.stderr
    assert done.stdout


@pytest.mark.parametrize("command", ["convert", "scan"])
def test_folders_without_python_and_missing_paths(cli, tmp_path, command):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "a.txt").write_text("x")
    done = cli(command, "empty")
    assert (done.code, done.stderr) == (4, "mgmigrate: empty: holds no Python files\n")
    done = cli(command, "gone")
    assert (done.code, done.stderr) == (4, "mgmigrate: gone: no such file or folder\n")


def test_a_folder_without_data_parallel(cli, tmp_path):
    (tmp_path / "a.py").write_text(PLAIN)
    done = cli("convert", ".")
    assert (done.code, done.stdout) == (0, b"")
    assert "nothing to do" in done.stderr


# ---------------------------------------------------------------- writing
def test_a_read_only_target_is_refused(cli, train):
    train.chmod(0o444)
    done = cli("convert", "train.py", "--write")
    assert done.code == 4
    assert done.stderr.splitlines()[-1] == "mgmigrate: train.py: is read-only; nothing was written"
    assert train.read_text() == PROGRAM


@pytest.mark.parametrize("where", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_everything_as_it_was(cli, train, tmp_path, monkeypatch, where):
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, where, full)
    done = cli("convert", "train.py", "--write")
    assert done.code == 4
    place = "train.py" if where == "replace" else tmp_path / ".mgmigrate-journal"
    assert done.stderr.splitlines()[-1] == f"mgmigrate: {place}: No space left on device; nothing was written"
    assert files(tmp_path) == {"train.py": PROGRAM.encode()}


def test_a_failure_in_the_middle_brings_the_first_file_back(cli, tmp_path, monkeypatch):
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(PROGRAM)
    before = files(tmp_path)
    replace, count = os.replace, iter([True, False, True])

    def second_fails(source: str, target: str) -> None:
        if not next(count):
            raise OSError(errno.EIO, "Input/output error", source)
        replace(source, target)

    monkeypatch.setattr(os, "replace", second_fails)
    done = cli("convert", "one.py", "two.py", "--write")
    assert done.code == 4
    assert "two.py: Input/output error; nothing was written" in done.stderr
    assert files(tmp_path) == before


def test_output_where_a_file_stands_in_the_way(cli, train, tmp_path):
    (tmp_path / "out").write_text("x")
    done = cli("convert", "train.py", "--output", "out")
    assert done.code == 4
    assert "nothing was written" in done.stderr
    assert (tmp_path / "out").read_text() == "x"


def test_output_folders_go_again_when_nothing_was_written(cli, train, tmp_path, monkeypatch):
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert cli("convert", "train.py", "--output", "new/deep").code == 4
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_stdout_is_one_line(train):
    with open("/dev/full", "w") as full:
        words = [sys.executable, "-m", "migrator", "convert", str(train)]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 4
    assert "Traceback" not in done.stderr
    assert "No space left" in done.stderr


# ---------------------------------------------------------------- git
@pytest.fixture
def repository(train):
    git(train.parent, "init", "-q")
    git(train.parent, "add", "-A")
    git(train.parent, "commit", "-qm", "x")
    return train.parent


def test_a_clean_tree_is_written(cli, repository):
    assert cli("convert", "train.py", "--write").code == 0


def test_untracked_data_does_not_make_a_tree_dirty(cli, repository):
    (repository / "runs").mkdir()
    (repository / "runs" / "log.txt").write_text("x")
    assert cli("convert", "train.py", "--write").code == 0


@pytest.mark.parametrize("dirty", ["train.py", "other.py"])
def test_a_dirty_tree_refuses_to_be_written(cli, repository, dirty):
    (repository / "other.py").write_text("x = 1\n")
    git(repository, "add", "other.py")
    git(repository, "commit", "-qm", "y")
    with (repository / dirty).open("a") as stream:
        stream.write("# more\n")
    before = files(repository)
    done = cli("convert", "train.py", "--write")
    assert done.code == 4
    assert done.stderr.splitlines()[-1] == (
        f"mgmigrate: {dirty}: not committed to git; commit, so that you can go back, or give --allow-dirty;"
        " nothing was written"
    )
    assert files(repository) == before
    assert cli("convert", "train.py", "--write", "--allow-dirty").code == 0


def test_a_file_that_git_does_not_know_counts_as_dirty(cli, repository):
    (repository / "new.py").write_text(PROGRAM)
    assert cli("convert", "new.py", "--write").code == 4
    assert cli("convert", "new.py", "--output", "out").code == 0


def test_without_git_there_is_nothing_to_ask(cli, train, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert cli("convert", "train.py", "--write").code == 0


# ---------------------------------------------------------------- refusing a bad result
def test_a_result_that_does_not_parse_is_refused(cli, train, monkeypatch):
    from dataclasses import replace

    from migrator.convert import apply

    original = apply._rewrite

    def broken(*args):
        return [replace(change, after=change.after + "x = (\n") for change in original(*args)]

    monkeypatch.setattr(apply, "_rewrite", broken)
    done = cli("convert", "train.py", "--write")
    assert done.code == 4
    assert "the result does not parse" in done.stderr
    assert train.read_text() == PROGRAM


def test_a_result_that_a_second_run_would_change_is_refused(cli, train, monkeypatch):
    from dataclasses import replace

    from codemods.registry import load_rules
    from migrator.edits import InsertBefore

    def restless(context):
        yield load_rules()[0].converted(
            context.program.wraps[0].at, "again", InsertBefore(context.program.entry.first, "again()\n")
        )

    rule = replace(load_rules()[0], id="MG998", check=restless)
    monkeypatch.setattr("migrator.convert.diagnose.load_rules", lambda: [rule])
    done = cli("convert", "train.py", "--write")
    assert done.code == 4
    assert "a second run would change the result again" in done.stderr
    assert train.read_text() == PROGRAM


# ---------------------------------------------------------------- scan, rules, explain, help
def test_scan_lists_programs_with_role_and_result(cli, train, tmp_path):
    (tmp_path / "ask.py").write_text(ASKS)
    (tmp_path / "plain.py").write_text(PLAIN)
    (tmp_path / "bad.py").write_text("nn.DataParallel(\n")
    (tmp_path / "evaluate.py").write_text("from torch import nn\nmodel = nn.DataParallel(nn.Linear(1, 1))\nmodel(1)\n")
    done = cli("scan", ".")
    assert done.code == 3
    rows = {line.split()[0]: line for line in done.text.splitlines()}
    assert list(rows) == ["program", "ask.py", "bad.py", "evaluate.py", "train.py"]
    assert "training" in rows["train.py"]
    assert rows["train.py"].endswith("converts")
    assert rows["ask.py"].endswith("1 to decide")
    assert "evaluation" in rows["evaluate.py"]
    assert "cannot be parsed" in rows["bad.py"]


def test_scan_finds_programs_that_reach_the_wrap_through_modules(cli, tmp_path):
    package = tmp_path / "lib"
    package.mkdir()
    (package / "__init__.py").write_text("from .wrapping import wrap\n")
    (package / "wrapping.py").write_text("from torch import nn\n\n\ndef wrap(net):\n    return nn.DataParallel(net)\n")
    body = PROGRAM.replace("nn.DataParallel(", "lib.wrap(").replace(
        "import argparse\n", "import argparse\nimport lib\n"
    )
    (tmp_path / "train.py").write_text(body)
    (tmp_path / "other.py").write_text("if __name__ == '__main__':\n    print('lib')\n")
    done = cli("scan", ".")
    assert [line.split()[0] for line in done.text.splitlines()] == ["program", "train.py"]


def test_scan_as_json(cli, train):
    (row,) = json.loads(cli("scan", "train.py", "--format", "json").stdout)["programs"]
    assert (row["path"], row["role"], row["wraps"], row["questions"]) == ("train.py", "training", 1, 0)


def test_scan_of_one_bad_file_is_4(cli, tmp_path):
    _syntax(tmp_path / "bad.py")
    assert cli("scan", "bad.py").code == 4


def test_scan_of_a_tree_without_hits_parses_nothing(cli, tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("def f(:  # not Python\n")
    monkeypatch.setattr("ast.parse", lambda *_, **__: pytest.fail("parsed"))
    done = cli("scan", ".")
    assert (done.code, done.text) == (0, "no program here uses DataParallel\n")


def test_rules_and_explain(cli):
    listed = cli("rules").text.splitlines()
    ids = [line.split()[0] for line in listed]
    assert ids == sorted(ids)
    for rule in ids:
        explained = cli("explain", rule.lower())
        assert explained.code == 0
        assert explained.text.startswith(rule)
        assert len(explained.text.splitlines()) > 3


def test_version(cli):
    done = cli("--version")
    assert done.code == 0
    assert done.text.startswith("mgmigrate ")


def test_colours_only_on_a_terminal(cli, train, monkeypatch):
    assert b"\033[" not in cli("convert", "train.py").stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert b"\033[32m+" in cli("convert", "train.py").stdout


# ---------------------------------------------------------------- whole processes
def run(*words: str, **more) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, **more)


HEAVY = {
    "libcst",
    "torch",
    "rich.console",
    "rich.progress",
    "codemods.base",
    "migrator.convert.pipeline",
    "accelerate",
    "numpy",
}


def test_importing_the_command_line_imports_nothing_heavy():
    done = run("-c", "import migrator.cli.app, migrator.cli.console, sys; print(*sys.modules)")
    assert not HEAVY & set(done.stdout.split())


def test_help_imports_neither_libcst_nor_torch():
    code = "import sys, runpy; sys.argv = ['mgmigrate', '--help']\ntry:\n    runpy.run_module('migrator', run_name='__main__')\n"
    code += "finally:\n    print('\\nMODULES', *sys.modules)"
    done = run("-c", code)
    assert "convert" in done.stdout
    assert not {"libcst", "torch", "codemods.base", "migrator.convert.pipeline"} & set(
        done.stdout.split("MODULES")[1].split()
    )


def test_convert_never_imports_torch(train):
    code = f"import sys; sys.argv = ['mgmigrate', 'convert', {str(train)!r}]\nfrom migrator.__main__ import main\n"
    code += "try:\n    main()\nfinally:\n    print('\\nMODULES', *sys.modules)"
    done = run("-c", code)
    modules = set(done.stdout.split("MODULES")[1].split())
    assert "libcst" in modules
    assert not {"torch", "numpy", "accelerate", "libcst.matchers", "libcst.codemod", "rich.console"} & modules


def test_python_dash_m(train):
    done = run("-m", "migrator", "convert", "train.py", cwd=train.parent)
    assert done.returncode == 0
    assert done.stdout.startswith("diff --git a/train.py")


def test_an_internal_error_is_one_line_without_a_traceback(train):
    code = "import sys; sys.argv = ['mgmigrate', 'convert', sys.argv[1]]\nimport migrator.trees.convert\n"
    code += "migrator.trees.convert.convert_loaded = lambda *_: 1 / 0\nfrom migrator.__main__ import main\nmain()"
    done = run("-c", code, str(train))
    assert done.returncode == 4
    assert done.stderr.startswith("mgmigrate: internal error (ZeroDivisionError: division by zero)")
    assert len(done.stderr.splitlines()) == 1


def test_a_reader_that_stops_early_is_no_error(train):
    command = f"{sys.executable} -m migrator convert {train} 2>err | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=train.parent)
    assert "Traceback" not in (train.parent / "err").read_text()
    assert done.stdout.strip() == "0"
