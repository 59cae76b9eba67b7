"""Model, optimizer and loader are found over modules, or it is said what was looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.facts.links import links
from migrator.facts.program import Program
from migrator.project import load_project

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
