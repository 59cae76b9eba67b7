"""`mgmigrate verify` as a user gives it: converts first, takes folders, modules and script arguments, and exits as it says."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from migrator.__main__ import main
from migrator.cli import check_program
from migrator.verify import ForkServer, verify

MODEL = """\
from torch import nn


def make(width):
    return nn.Sequential(nn.Linear(width, 8), nn.Tanh(), nn.Linear(8, 3))
"""
TRAIN = """\
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from {parts} import make


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, required=True)
    args = parser.parse_args()
    data = TensorDataset(torch.randn(64, args.width), torch.randint(3, (64,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = nn.DataParallel(make(args.width)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for inputs, targets in loader:
            loss = nn.functional.cross_entropy(model(inputs.cuda()), targets.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
"""
IMAGES = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

data = datasets.CIFAR10("images", train=True, transform=transforms.ToTensor())
loader = DataLoader(data, batch_size=16, shuffle=True)
model = nn.DataParallel(nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(2):
    for inputs, targets in loader:
        loss = nn.functional.cross_entropy(model(inputs.cuda()), targets.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(server: ForkServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Exit code, output and messages of the command, run in an empty folder and with the tests' fork server."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(check_program, "verify", lambda request: verify(request, server))

    def command(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["mgmigrate", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        code = stop.value.code
        return (code if isinstance(code, int) else 0), captured.out, captured.err

    return command


def write(folder: Path, parts: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(TRAIN.format(parts=parts))
    (folder / "parts.py").write_text(MODEL)


def test_it_converts_first_and_gives_the_script_its_arguments(run: Run, tmp_path: Path) -> None:
    write(tmp_path, "parts")
    kept = sorted(p.name for p in tmp_path.iterdir())
    code, out, _ = run("verify", "train.py", "--devices", 2, "--steps", 3, "--format", "json", "--", "--width", 5)
    verdict = json.loads(out)
    assert (code, verdict["status"], verdict["steps"], verdict["devices"]) == (0, "EQUAL", 3, 2)
    assert verdict["questions"] == []
    assert sorted(p.name for p in tmp_path.iterdir()) == kept


def test_what_convert_wrote_into_a_folder_is_checked_with_the_rest_of_the_program(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "code", "parts")
    assert run("convert", "code/train.py", "--output", "converted")[0] == 0
    assert [p.name for p in (tmp_path / "converted").iterdir()] == ["train.py"]
    code, out, _ = run("verify", "code/train.py", "converted", "--devices", 2, "--steps", 2, "--", "--width", 4)
    assert code == 0 and out.startswith("EQUAL"), out
    wrong = tmp_path / "converted" / "train.py"
    wrong.write_text(wrong.read_text().replace("lr=0.1", "lr=0.2"))
    code, out, _ = run("verify", "code/train.py", wrong, "--devices", 2, "--steps", 2, "--", "--width", 4)
    assert code == 1 and out.startswith("DIFFERENT at step 0") and "RATE" in out, out


@pytest.mark.parametrize("flag", ["-m", "--module"])
def test_it_runs_a_module_as_python_does(run: Run, tmp_path: Path, flag: str) -> None:
    write(tmp_path / "package", ".parts")
    (tmp_path / "package" / "__init__.py").touch()
    words = ("--devices", 2, "--steps", 2, "--float64", "--timeout", 100, "--keep", "kept")
    code, out, _ = run("verify", ".", flag, "package.train", *words, "--", "--width", 4)
    assert code == 0 and "float64, free-running" in out, out
    assert "logs and records" in out and len(list((tmp_path / "kept").glob("run-*/before.0.log"))) == 1


@pytest.mark.parametrize("words", [("--fake-data",), ("--fake-data", 64)], ids=["alone", "number"])
def test_synthetic_data_sets_with_and_without_a_number(run: Run, tmp_path: Path, words: tuple[object, ...]) -> None:
    (tmp_path / "images.py").write_text(IMAGES)
    code, out, _ = run("verify", "images.py", *words, "--devices", 2, "--steps", 2)
    assert code == 0 and out.startswith("EQUAL"), out


def test_a_missing_data_set_points_to_synthetic_ones(run: Run, tmp_path: Path) -> None:
    (tmp_path / "images.py").write_text(IMAGES)
    code, out, _ = run("verify", "images.py", "--devices", 2)
    assert code == 3 and out.startswith("NOT VERIFIABLE") and "--fake-data" in out, out


def test_a_policy_is_not_verifiable_unless_taken_out(run: Run, tmp_path: Path) -> None:
    write(tmp_path, "parts")
    words = ("verify", "train.py", "--batch", "per-gpu", "--devices", 2, "--steps", 2)
    code, out, _ = run(*words, "--", "--width", 4)
    assert code == 3 and out.startswith("NOT VERIFIABLE: policy: --batch per-gpu"), out
    code, out, _ = run(*words, "--as-faithful", "--", "--width", 4)
    assert code == 0 and out.startswith("EQUAL"), out


def test_questions_of_the_converter_are_repeated(run: Run, tmp_path: Path) -> None:
    write(tmp_path, "parts")
    # What kind of wrapper this is nobody can tell: it is not there.
    text = TRAIN.format(parts="parts").replace(
        "from parts import make",
        "from parts import make\n\ntry:\n    from elsewhere import BalancedDataParallel\nexcept ImportError:\n    BalancedDataParallel = None",
    )
    other = "    other = BalancedDataParallel and BalancedDataParallel(model)\n    optimizer ="
    (tmp_path / "train.py").write_text(text.replace("    optimizer =", other))
    code, out, told = run("verify", "train.py", "--devices", 2, "--steps", 2, "--", "--width", 4)
    assert code == 3 and "train.py:" in told and "MG" in told, out + told


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("verify", "nothing.py"), 4, "no such file"),
        (("verify", "train.py", "nothing"), 4, "no such file"),
        (("verify", "."), 2, "--module"),
        (("verify", ".", "-m", "package.nothing"), 4, "holds no module package.nothing"),
        (("verify", "train.py", "--devices", "0"), 2, "--devices"),
        (("verify", "train.py", "--steps", "none"), 2, "--steps"),
        (("verify", "train.py", "--format", "yaml"), 2, "yaml"),
        (("verify", "plain.py"), 4, "nothing to check"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_wrong_words_are_told(run: Run, tmp_path: Path, words: tuple[str, ...], code: int, says: str) -> None:
    write(tmp_path, "parts")
    (tmp_path / "plain.py").write_text("print('no training')\n")
    found, _, told = run(*words)
    assert found == code and says in told, told
