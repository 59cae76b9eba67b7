"""The modules of a program: found through imports, never imported."""

from pathlib import Path

import pytest

from migrator.load.project import load_project, project_root
from migrator.load.source import Source, SourceError


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def make(**texts: str) -> None:
        for name, text in texts.items():
            path = tmp_path / (name.replace("__", "/") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return make


def modules(entry: str) -> list[str]:
    return sorted(load_project(Path(entry)).modules)


def package(folder: Path, name: str, text: str = "") -> None:
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "__init__.py").write_text(text)


def test_only_what_is_imported_is_read(tree):
    tree(train="import a\n", a="x = 1\n", other="def f(:\n")
    assert modules("train.py") == ["a", "train"]


def test_libraries_are_not_entered(tree):
    tree(train="import torch, os\nfrom libcst import Module\n")
    assert modules("train.py") == ["train"]


@pytest.mark.parametrize(
    "line",
    ["import pkg.a", "from pkg import a", "from pkg.a import f", "from pkg.a import *", "import pkg.a as b"],
)
def test_packages(tree, tmp_path, line):
    package(tmp_path, "pkg")
    tree(train=line + "\n", pkg__a="def f():\n    pass\n", pkg__b="")
    assert modules("train.py") == ["pkg", "pkg.a", "train"]


def test_folders_without_an_init_file(tree):
    tree(train="from pkg.deep.a import f\n", pkg__deep__a="f = 1\n")
    assert modules("train.py") == ["pkg.deep.a", "train"]


@pytest.mark.parametrize("line", ["from . import b", "from .b import x", "from .sub.c import y", "from ..top import z"])
def test_relative_imports(tree, tmp_path, line):
    package(tmp_path, "pkg")
    package(tmp_path, "pkg/sub")
    package(tmp_path, "pkg/sub2")
    tree(train="import pkg.a\nimport pkg.sub2.d\n", pkg__b="x = 1\n", pkg__sub__c="y = 1\n", pkg__top="z = 1\n")
    where = "pkg__sub2__d" if line.startswith("from ..") else "pkg__a"
    tree(**{"pkg__a": "", "pkg__sub2__d": "", where: line + "\n"})
    wanted = {"from . import b": "pkg.b", "from .b import x": "pkg.b", "from ..top import z": "pkg.top"}
    assert wanted.get(line, "pkg.sub.c") in modules("train.py")


def test_reexports_lead_on(tree, tmp_path):
    package(tmp_path, "pkg", "from .inner import make\n")
    tree(train="from pkg import make\n", pkg__inner="from .deep import *\n", pkg__deep="def make():\n    pass\n")
    assert modules("train.py") == ["pkg", "pkg.deep", "pkg.inner", "train"]


def test_cycles_end(tree):
    tree(train="import a\n", a="import b\n", b="import a\nimport train\n")
    assert modules("train.py") == ["a", "b", "train"]


@pytest.mark.parametrize(
    "line",
    [
        "sys.path.append('lib')",
        "sys.path.insert(0, 'lib')",
        "sys.path.append(os.path.join(os.path.dirname(__file__), 'lib'))",
        "here = os.path.dirname(os.path.abspath(__file__))\nsys.path.insert(0, os.path.join(here, 'lib'))",
    ],
)
def test_folders_that_are_put_on_the_path(tree, line):
    tree(train=f"import os, sys\n{line}\nimport tool\n", lib__tool="x = 1\n")
    assert len(modules("train.py")) == 2


def test_modules_that_are_found_nowhere_are_passed_over(tree):
    tree(train="import gone\nfrom .gone import x\nfrom pkg.gone import y\n")
    assert modules("train.py") == ["train"]


def test_a_module_that_cannot_be_read_is_a_problem_and_no_end(tree):
    tree(train="import bad\nimport good\n", bad="def f(:\n", good="x = 1\n")
    project = load_project(Path("train.py"))
    assert sorted(project.modules) == ["good", "train"]
    assert [problem.path for problem in project.problems] == ["bad.py"]


def test_an_entry_that_cannot_be_read_is_an_error(tree):
    tree(train="def f(:\n")
    with pytest.raises(SourceError, match=r"train\.py:1"):
        load_project(Path("train.py"))


def test_files_that_are_not_on_the_disk_yet(tree, tmp_path):
    tree(train="import new\n")
    overlay = {
        tmp_path / "new.py": Source("new.py", "x = 1\n"),
        tmp_path / "train.py": Source("train.py", "import new, os\n"),
    }
    project = load_project(Path("train.py"), overlay=overlay)
    assert sorted(project.modules) == ["new", "train"]
    assert "os" in project.entry.imported_modules


def test_the_root_is_the_folder_with_a_mark(tree, tmp_path):
    tree(proj__src__train="x = 1\n")
    (tmp_path / "proj" / "setup.py").write_text("")
    assert project_root(tmp_path / "proj" / "src" / "train.py") == tmp_path / "proj"


def test_nothing_is_imported_or_executed(tree, tmp_path):
    tree(train="import a\n", a="open('ran', 'w')\n")
    load_project(Path("train.py"))
    assert not (tmp_path / "ran").exists()


def test_a_path_file_may_add_several_folders_through_a_function(tmp_path):
    (tmp_path / "lib" / "nets").mkdir(parents=True)
    (tmp_path / "extra").mkdir()
    (tmp_path / "tools").mkdir()
    (tmp_path / "lib" / "nets" / "__init__.py").write_text("")
    (tmp_path / "lib" / "nets" / "pose.py").write_text("class Pose: pass\n")
    (tmp_path / "extra" / "meters.py").write_text("class Meter: pass\n")
    (tmp_path / "tools" / "paths.py").write_text(
        "import os.path as osp, sys\n"
        "def add(path):\n    sys.path.insert(0, path)\n"
        "here = osp.dirname(__file__)\n"
        "add(osp.join(here, '..', 'lib'))\nadd(osp.join(here, '..', 'extra'))\n"
    )
    entry = tmp_path / "tools" / "train.py"
    entry.write_text("import paths\nfrom nets.pose import Pose\nfrom meters import Meter\n")
    names = {name.rpartition(".")[2] for name in load_project(entry).modules}
    assert {"pose", "meters"} <= names
