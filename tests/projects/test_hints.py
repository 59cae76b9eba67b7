"""What the text of a program does not tell, the user can: where the loader comes from, how the model is called, what starts."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.__main__ import main
from migrator.convert.pipeline import convert_program
from migrator.load.source import SourceError

from .tools import copy_of


@dataclass(frozen=True)
class Done:
    code: int
    stdout: bytes
    stderr: str


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]):
    """Run `mgmigrate` in this process."""

    def run(*words: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["mgmigrate", *words])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsysbinary.readouterr()
        return Done(int(stop.value.code or 0), captured.out, captured.err.decode())

    return run


HIDDEN_NAME = """\
import pickle

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

handlers = pickle.loads(b"...")


def main():
    data = TensorDataset(torch.randn(8, 2), torch.randn(8, 1))
    loader = DataLoader(data, batch_size=4, shuffle=True)
    wrapped = nn.DataParallel(nn.Linear(2, 1))
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    handlers.start(wrapped)
    for epoch in range(2):
        for x, y in loader:
            loss = ((handlers.network(x) - y) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    torch.save(handlers.network.state_dict(), "network.pt")


if __name__ == "__main__":
    main()
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = copy_of("loader_from_a_plugin", tmp_path)
    monkeypatch.chdir(folder)
    return folder


def notes(conversion) -> list[tuple[str, int, str]]:
    return [(d.at.path, d.at.line, d.message) for d in conversion.diagnostics if d.rule == "MG905"]


def test_a_loader_that_is_not_in_sight_is_said_with_the_way_to_tell(plugin: Path) -> None:
    ((path, line, message),) = notes(convert_program(Path("train.py"), Options()))
    assert (path, line) == ("train.py", 14)
    assert "the loader behind `source`" in message and "--train-loader MODULE.NAME" in message


def test_a_loader_that_the_user_names_is_shared_out_where_it_is_made(plugin: Path) -> None:
    conversion = convert_program(Path("train.py"), Options(train_loader="sources_stars.TRAINING"))
    assert conversion.way == "distributed", conversion.reason
    assert not notes(conversion)
    changed = {change.path: change.after for change in conversion.changes}
    assert "DistributedSampler(stars" in changed["sources_stars.py"]
    assert "source.sampler.set_epoch(epoch)" in changed["train.py"]


def test_a_loader_may_be_named_by_the_function_that_makes_it(plugin: Path) -> None:
    Path("sources_stars.py").write_text(
        "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n\n\ndef make():\n"
        "    stars = TensorDataset(torch.zeros(64, 3), torch.zeros(64).long())\n"
        "    loader = DataLoader(stars, batch_size=16, shuffle=True)\n    return loader\n"
    )
    conversion = convert_program(Path("train.py"), Options(train_loader="sources_stars.make"))
    assert (conversion.way, notes(conversion)) == ("distributed", []), conversion.reason


@pytest.mark.parametrize("name", ["sources_stars.GONE", "gone.TRAINING", "TRAINING", "net.Classifier"])
def test_a_name_that_is_not_there_is_an_error(plugin: Path, name: str) -> None:
    with pytest.raises(SourceError, match="no loader is made under this name"):
        convert_program(Path("train.py"), Options(train_loader=name))


def test_a_model_that_is_called_under_a_hidden_name_is_followed_when_the_user_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(HIDDEN_NAME)
    untold = notes(convert_program(Path("train.py"), Options()))
    assert [(path, line) for path, line, _ in untold] == [("train.py", 13)]
    assert "--model-name NAME" in untold[0][2]
    told = convert_program(Path("train.py"), Options(model_name="network"))
    assert not notes(told)


def test_settings_name_hints_and_entries(plugin: Path, cli) -> None:
    Path("pyproject.toml").write_text(
        '[tool.mgmigrate]\ntrain_loader = "sources_stars.TRAINING"\nentry = ["train.py"]\n'
    )
    Path("other.py").write_text(Path("train.py").read_text())
    done = cli("convert", ".")
    assert b"b/other.py" not in done.stdout
    assert b"DistributedSampler(stars" in done.stdout


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('entry = ["gone.py"]', "entry names gone.py, which is no file"),
        ("entry = 3", "it takes a list of files"),
        ("train_loader = 3", "it takes a name"),
    ],
)
def test_a_mistake_in_the_settings_is_a_usage_error(plugin: Path, cli, line: str, told: str) -> None:
    Path("pyproject.toml").write_text(f"[tool.mgmigrate]\n{line}\n")
    done = cli("convert", ".")
    assert (done.code, done.stdout) == (2, b"")
    assert told in done.stderr
