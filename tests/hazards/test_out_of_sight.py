"""Training that is done by code which the program's text does not lead to."""

from __future__ import annotations

from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.pipeline import convert_program
from tests.rules.tools import check_noop, check_question, check_rewrite, convert, training

PROGRAM = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from driver import Trainer


def main():
    loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=16, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    {line}


if __name__ == "__main__":
    main()
"""
TRAINS = PROGRAM.format(line="Trainer(model, loader, optimizer).run()")
DRIVER = """\
import torch


class Trainer:
    def __init__(self, model, loader, optimizer):
        self.model, self.loader, self.optimizer = model, loader, optimizer

    def run(self):
        for epoch in range(2):
            for (x,) in self.loader:
                loss = self.model(x).square().mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            torch.save(self.model.state_dict(), "last.pt")
"""


def test_what_takes_an_optimizer_and_is_not_in_sight_trains():
    done = check_question(TRAINS, "set PYTHONPATH as for a run", "MG905")
    assert done.way == "call"
    check_rewrite(TRAINS, "    model = SplitDataParallel(nn.Linear(4, 2))", "MG302")


@pytest.mark.parametrize(
    "line", ["Trainer(model, loader).run()", "load_checkpoint(model, optimizer)", "print(optimizer)"]
)
def test_a_program_that_gives_no_optimizer_away_evaluates(line):
    done = convert(PROGRAM.format(line=line).replace("import Trainer", "import Trainer, load_checkpoint"))
    assert done.way == "alone" and not done.questions


def test_modules_in_a_folder_of_the_python_path_are_the_programs(tmp_path: Path, monkeypatch):
    recipe, shared = tmp_path / "recipes" / "one" / "local", tmp_path / "recipes" / "shared"
    recipe.mkdir(parents=True)
    shared.mkdir()
    (tmp_path / ".git").mkdir()
    (recipe / "train.py").write_text(TRAINS)
    (shared / "driver.py").write_text(DRIVER)
    monkeypatch.chdir(recipe.parent)
    monkeypatch.setenv("PYTHONPATH", "../shared")
    done = convert_program(Path("local/train.py"), Options())
    assert not done.questions
    driver = next(change for change in done.changes if change.path.endswith("driver.py"))
    assert "get_rank() == 0" in driver.after


def test_training_in_an_actor_is_asked_about():
    actor = DRIVER.replace("class Trainer:", "import ray\n\n\n@ray.remote\nclass Trainer:")
    text = actor + TRAINS.replace("from driver import Trainer\n", "")
    check_question(text, "Trainer trains in a process that Ray starts", "MG103")


@pytest.mark.parametrize(
    "line",
    [
        "for i in range(torch.cuda.device_count()):\n    name = torch.cuda.get_device_name(i)",
        "names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]",
    ],
)
def test_devices_that_are_asked_for_their_names_are_those_of_this_machine(line):
    check_noop(training(line), "MG303")
