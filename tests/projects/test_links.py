"""Model, optimizer and loader are found over modules, or it is said what was looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.facts.links import links
from migrator.facts.program import Program
from migrator.load.project import load_project

from .cases import PROJECTS, Project
from .tools import PROGRAMS

HIDDEN = {("loader_from_a_plugin", "loader")}
# Where each role is made, by project: file and line text.
MADE = {
    ("inherited_trainer", "loader"): "DigitsLoader(**config",
    ("inherited_trainer", "model"): "ConvNet(config",
    ("networks_in_a_container", "optimizer"): "torch.optim.Adam(self.nets[name]",
    ("networks_in_a_container", "loader"): "return DataLoader(TensorDataset(points)",
    ("own_engine", "loader"): "loader = DataLoader(data",
    ("closures_and_hooks", "optimizer"): "torch.optim.Adagrad(",
    ("closures_and_hooks", "loader"): "return DataLoader(_data[0]",
    ("absl_program", "optimizer"): "torch.optim.Adam(model.parameters()",
    ("absl_program", "model"): "_MODELS[name](**options)",
    ("absl_program", "loader"): 'return DataLoader(_points["points"]',
    ("registry_with_config", "optimizer"): "self.table[kind](*inputs",
    ("names_in_yaml", "model"): 'eval("models."',
    ("names_in_yaml", "loader"): "return DataLoader(TensorDataset(images",
    ("whole_batches", "loader"): '"train": ToneLoader(',
    ("run_as_module", "loader"): "endless(corpus.get_loader",
}


@pytest.mark.parametrize("project", PROJECTS, ids=lambda p: p.name)
def test_every_role_is_found_or_said_to_be_missing(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROGRAMS / project.name)
    found = links(Program(load_project(Path(project.entry))))
    assert {one.role for one in found} == {"model", "optimizer", "loader"}
    assert {one.role for one in found if one.state == "unresolved"} == {r for n, r in HIDDEN if n == project.name}
    assert all(bool(one.missing) == (one.state == "unresolved") == (not one.made) for one in found)


@pytest.mark.parametrize(("name", "role"), MADE, ids=lambda part: str(part))
def test_where_it_is_made_is_the_right_place(name: str, role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROGRAMS / name)
    project = next(p for p in PROJECTS if p.name == name)
    program = Program(load_project(Path(project.entry)))
    lines = [
        program.module_at(place).line_text(place.line).strip()
        for one in links(program)
        if one.role == role
        for place in one.made
    ]
    assert any(MADE[name, role] in line for line in lines), lines


LOOP = """
def main():
    model = nn.DataParallel(nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{before}
    for x, y in {loader}:
        optimizer.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
"""
HEAD = """import collections
import functools
import torch
from torch import nn
from torch.utils.data import DataLoader

Parts = collections.namedtuple("Parts", "data loader")
TABLE = {}


def register(cls):
    TABLE[cls.__name__] = cls
    return cls


@register
class Source:
    def get(self):
        return DataLoader(range(8), batch_size=4)


def parts(size):
    data = range(size)
    return Parts(data=data, loader=DataLoader(data, batch_size=4))


def endless(n):
    if n:
        return endless(n - 1)
    return DataLoader(range(8), batch_size=4), n
"""


@pytest.mark.parametrize(
    ("before", "loader"),
    [
        ("    data, loader = parts(8)", "loader"),
        ("    both = parts(8)", "both.loader"),
        ("    state = dict(train=parts(8).loader)", "state['train']"),
        ("    loader, _ = endless(3)", "loader"),
        ("    make = functools.partial(parts, 8)\n    loader = DataLoader(range(4))", "enumerate(loader)"),
        ("    name = 'Source'\n    source = TABLE[name]()", "TABLE['Source']()"),
    ],
)
def test_loaders_are_followed_through_what_holds_them(
    before: str, loader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(HEAD + LOOP.format(before=before, loader=loader))
    found = {one.role: one for one in links(Program(load_project(Path("train.py"))))}
    assert found["loader"].state in ("found", "several"), found["loader"]
