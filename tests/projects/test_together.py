"""Programs that share modules: each is right alone, and all are right together."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.pipeline import convert_program
from migrator.load.project import load_project
from migrator.trees.together import convert_together
from migrator.write.files import after_files, target_contents

from .tools import copy_of

FACTORY = {
    "build.py": """\
import torch


def build():
    return torch.nn.DataParallel(torch.nn.Linear(3, 2))
""",
    "train.py": """\
import torch
from torch.utils.data import DataLoader, TensorDataset

from build import build


def main():
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in DataLoader(TensorDataset(torch.randn(8, 3), torch.randn(8, 2)), batch_size=4, shuffle=True):
            optimizer.zero_grad()
            ((model(x) - y) ** 2).mean().backward()
            optimizer.step()
    torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
""",
    "predict.py": """\
import torch

from build import build


def main():
    model = build()
    model.load_state_dict(torch.load("model.pt"))
    model.eval()
    print(model(torch.zeros(4, 3)))


if __name__ == "__main__":
    main()
""",
}


@pytest.fixture
def factory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    for name, text in FACTORY.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def convert_all(names: list[str]) -> None:
    alone = [convert_program(Path(name), Options()) for name in names]
    conversions, bases = convert_together(alone, [Path() for _ in alone], Options())
    for path, data in target_contents(conversions, None, bases).items():
        path.write_bytes(data)


def run(name: str) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, name], capture_output=True, text=True, timeout=120, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_wrapper_that_two_programs_share_is_not_dropped_for_one_of_them(factory: Path) -> None:
    conversion = convert_program(Path("predict.py"), Options())
    assert not conversion.changes
    (question,) = conversion.questions
    assert (question.rule, question.at.path, question.at.line) == ("MG309", "build.py", 5)
    assert "train.py" in question.message


@pytest.mark.parametrize(
    "names",
    [["predict.py", "train.py"], pytest.param(["train.py", "predict.py"], marks=pytest.mark.long)],
    ids=lambda names: "-then-".join(names),
)
def test_both_programs_run_after_they_were_converted_together(factory: Path, names: list[str]) -> None:
    convert_all(names)
    assert "SplitDataParallel(" in (factory / "build.py").read_text()
    for name in names:
        assert not convert_program(Path(name), Options()).changes, name
    run("train.py")
    run("predict.py")


def test_three_programs_share_one_module_of_helpers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copy_of("shared_entries", tmp_path)
    monkeypatch.chdir(folder)
    names = ["train.py", "finetune.py", "test.py"]
    convert_all(names)
    assert [path.name for path in folder.glob("*utils*.py")] == ["ddp_utils.py"]
    for path in folder.rglob("*.py"):
        ast.parse(path.read_text())
    for name in names:
        assert not convert_program(Path(name), Options()).changes, name
    assert not (folder / "common" / "data.py").read_text().count("ddp_utils"), "test.py reads it without a group"


def test_helpers_of_an_earlier_conversion_are_added_to(factory: Path) -> None:
    (factory / "second.py").write_text(FACTORY["train.py"].replace("from build import build", "from one import build"))
    (factory / "one.py").write_text(FACTORY["build.py"].replace("Linear(3, 2)", "Linear(3, 2).cuda()"))
    convert_all(["train.py"])
    before = (factory / "ddp_utils.py").read_text()
    (factory / "ddp_utils.py").write_text(before)
    convert_all(["second.py"])
    defined = {n.name for n in ast.parse((factory / "ddp_utils.py").read_text()).body if hasattr(n, "name")}
    assert {n.name for n in ast.parse(before).body if hasattr(n, "name")} <= defined


def test_a_module_of_helpers_that_was_edited_is_left_alone(factory: Path) -> None:
    convert_all(["train.py"])
    text = (factory / "ddp_utils.py").read_text() + "\n\nEDITED = True\n"
    (factory / "ddp_utils.py").write_text(text)
    (factory / "second.py").write_text(FACTORY["train.py"].replace("from build import build", "from one import build"))
    (factory / "one.py").write_text(FACTORY["build.py"])
    convert_all(["second.py"])
    assert (factory / "ddp_utils.py").read_text() == text
    assert any(module.name == "distributed_utils" for module in load_project(Path("second.py")).modules.values())


def test_the_diffs_of_programs_that_share_a_module_build_on_each_other(factory: Path) -> None:
    alone = [convert_program(Path(name), Options()) for name in ("train.py", "predict.py")]
    conversions, _ = convert_together(alone, [Path(), Path()], Options())
    seen: dict[Path, str] = {path: path.read_text() for path in factory.glob("*.py")}
    for conversion in conversions:
        for change in conversion.changes:
            assert change.before == seen.get(Path(change.path).resolve())
        seen |= {path: source.text for path, source in after_files(conversion)}
