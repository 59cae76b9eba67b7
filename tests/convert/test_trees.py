"""Whole trees as people have them: what is converted, what is passed over, and what is said about it."""

import multiprocessing
import os
import subprocess
from pathlib import Path

import pytest

from benchmarks.tree_cost import PATHOLOGICAL
from migrator.facts.python import scopes
from migrator.load.project import load_project
from migrator.trees import convert as tree

from .conftest import PLAIN, PROGRAM

GIT = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}


def put(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        path = folder / name.replace("__", "/")
        path = path.with_name(f"{path.name}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def programs(done) -> list[str]:
    """The files that a scan lists."""
    return [line.split()[0] for line in done.text.splitlines()[1:]]


def test_tests_packaging_caches_and_environments_are_no_programs(cli, tmp_path):
    test = "from torch import nn\n\n\ndef test_wrap():\n    assert nn.DataParallel(nn.Linear(1, 1))\n"
    put(tmp_path, train=PROGRAM, setup="from setuptools import setup\nsetup()\n", tests__test_train=test)
    for folder in (".venv/lib", "venv", "build", "dist", "node_modules", ".git", ".tox", "site-packages"):
        put(tmp_path / folder, train=PROGRAM)
    done = cli("scan", ".")
    assert programs(done) == ["train.py"]
    assert cli("convert", ".", "--check").code == 1


def test_other_hidden_folders_are_looked_into(cli, tmp_path):
    put(tmp_path / ".github" / "scripts", train=PROGRAM)
    assert programs(cli("scan", ".")) == [".github/scripts/train.py"]


def test_what_git_ignores_is_passed_over_unless_it_is_named(cli, tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True, env=GIT)
    (tmp_path / ".gitignore").write_text("out/\nsecret.py\n")
    put(tmp_path, train=PROGRAM, secret=PROGRAM, out__train=PROGRAM)
    assert programs(cli("scan", ".")) == ["train.py"]
    assert programs(cli("scan", "out")) == ["out/train.py"]
    assert cli("convert", "secret.py", "--check").code == 1


def test_a_program_under_its_own_name_and_through_links_is_converted_once(cli, tmp_path):
    put(tmp_path, src__train=PROGRAM)
    (tmp_path / "link.py").symlink_to("src/train.py")
    (tmp_path / "src" / "loop").symlink_to(tmp_path)
    done = cli("convert", ".", "--write")
    assert done.code == 0, done.stderr
    assert done.text.count("diff --git") == 1
    assert "diff --git a/src/train.py" in done.text
    assert (tmp_path / "link.py").is_symlink()


def test_a_link_that_leads_out_of_the_tree_is_a_program_of_the_tree(cli, tmp_path):
    put(tmp_path, away__train=PROGRAM)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "train.py").symlink_to(tmp_path / "away" / "train.py")
    assert programs(cli("scan", "here")) == ["here/train.py"]


@pytest.mark.parametrize("folder", ["third_party", "vendor/lib", "external"])
def test_programs_in_vendored_folders_are_left_alone_and_said(cli, tmp_path, folder):
    put(tmp_path, train=PROGRAM)
    put(tmp_path / folder, train=PROGRAM)
    done = cli("convert", ".", "--write")
    assert done.code == 0, done.stderr
    assert f"{folder}/train.py: left alone: its folder says that it is somebody else's" in done.stderr
    assert (tmp_path / folder / "train.py").read_text() == PROGRAM
    assert (tmp_path / "train.py").read_text() != PROGRAM
    assert cli("convert", f"{folder}/train.py", "--check").code == 1
    assert "left alone" in cli("scan", ".").text


def test_pipes_folders_and_broken_links_among_the_files(cli, tmp_path):
    put(tmp_path, train=PROGRAM)
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "broken.py").symlink_to("gone.py")
    done = cli("convert", ".", "--write")
    assert done.code == 3
    assert "mgmigrate: broken.py: is a broken symbolic link\n" in done.stderr
    assert "pipe.py" not in done.stderr
    assert (tmp_path / "train.py").read_text() != PROGRAM


def test_a_file_and_a_folder_that_cannot_be_read_are_named(cli, tmp_path, monkeypatch):
    put(tmp_path, train=PROGRAM, locked=PROGRAM, deep__train=PROGRAM)
    opened, listed = os.open, os.scandir

    def no_file(path, *words, **more):
        if str(path).endswith("locked.py"):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *words, **more)

    def no_folder(path="."):
        if str(path).endswith("deep"):
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "open", no_file)
    monkeypatch.setattr(os, "scandir", no_folder)
    done = cli("convert", ".", "--check")
    assert done.code == 3
    assert "mgmigrate: locked.py: cannot be read: Permission denied\n" in done.stderr
    assert "deep: cannot be read: Permission denied\n" in done.stderr


def test_pathological_files_are_passed_over_with_a_reason(cli, tmp_path):
    put(tmp_path, train=PROGRAM)
    for name, text in PATHOLOGICAL.items():
        (tmp_path / name).write_text(text)
    done = cli("convert", ".", "--write")
    assert done.code == 3
    for name in PATHOLOGICAL:
        (line,) = [row for row in done.stderr.splitlines() if row.startswith(f"mgmigrate: {name}:")]
        assert any(reason in line for reason in ("it was not looked at", "cannot be parsed")), line
    assert (tmp_path / "train.py").read_text() != PROGRAM


@pytest.mark.parametrize("name", PATHOLOGICAL)
def test_a_pathological_file_that_is_named_or_imported_is_one_line(cli, tmp_path, name):
    (tmp_path / name).write_text(PATHOLOGICAL[name])
    alone = cli("convert", name)
    assert alone.code == 4
    assert len(alone.stderr.splitlines()) == 1
    put(tmp_path, train=f"import {name[:-3]}\n" + PROGRAM)
    done = cli("convert", "train.py")
    assert f"{name}:" in done.stderr
    assert "MG002" in done.stderr
    assert done.text


def test_a_program_of_more_modules_than_are_looked_at_says_so(cli, tmp_path, monkeypatch):
    monkeypatch.setattr("migrator.load.project._MAX_NODES", 300)
    names = [f"part_{number}" for number in range(20)]
    put(
        tmp_path,
        train="".join(f"import {name}\n" for name in names) + PROGRAM,
        **dict.fromkeys(names, "x = [1]\n" * 30),
    )
    project = load_project(Path("train.py"))
    assert 1 < len(project.modules) < 21
    assert "reaches more modules than are looked at" in cli("convert", "train.py").stderr


def test_the_deepest_nesting_that_is_looked_at_converts(cli, tmp_path):
    depth = scopes.MAX_DEPTH - 10
    put(tmp_path, train=PROGRAM.replace("import argparse\n", "import argparse\nx = " + "-" * depth + "1\n"))
    assert cli("convert", "train.py").code == 0


def test_two_processes_do_what_one_does(cli, tmp_path, monkeypatch):
    for number in range(6):
        put(tmp_path / f"p{number}", train=PROGRAM, plain=PLAIN)
    put(tmp_path, bad="nn.DataParallel(\n")
    one = cli("convert", ".", "--format", "json")
    monkeypatch.setattr(tree, "ENOUGH", 4)
    started = []
    context = multiprocessing.get_context
    monkeypatch.setattr(multiprocessing, "get_context", lambda kind: started.append(kind) or context(kind))
    two = cli("convert", ".", "--format", "json")
    assert started == ["fork"]
    assert (two.code, two.stdout) == (one.code, one.stdout)
    assert cli("convert", ".", "--write").code == 3
    assert cli("convert", ".", "--check").stdout == b""


def test_few_programs_start_no_process(cli, tmp_path, monkeypatch):
    for number in range(3):
        put(tmp_path / f"p{number}", train=PROGRAM)
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("forked"))
    assert cli("convert", ".", "--check").code == 1


def test_an_error_in_a_worker_is_a_line_and_stops_no_other(cli, tmp_path, monkeypatch):
    for number in range(5):
        put(tmp_path / f"p{number}", train=PROGRAM)
    monkeypatch.setattr(tree, "ENOUGH", 4)
    convert = tree.convert_loaded

    def breaks(entry, *rest):
        if entry.parent.name == "p3":
            raise ValueError("broken")
        return convert(entry, *rest)

    monkeypatch.setattr(tree, "convert_loaded", breaks)
    results = list(
        tree.convert_entries([tree.Entry(p, tmp_path) for p in sorted(tmp_path.rglob("train.py"))], _options())
    )
    assert [type(one).__name__ for one in results] == ["Conversion"] * 3 + ["SourceError"] + ["Conversion"]
    assert "internal error (ValueError: broken)" in str(results[3])


def _options():
    from codemods.options import Options

    return Options()
