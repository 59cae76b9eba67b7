"""Projects of several files: the wrap in one, the loader in another, the loop in a third."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.pipeline import convert_program
from migrator.verify import ForkServer, VerifyRequest, to_text, verify

from .cases import PROJECTS, Project
from .tools import GOLDEN, PROGRAMS, convert_here, copy_of, marked, stored

by_name = pytest.mark.parametrize("project", PROJECTS, ids=lambda p: p.name)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def go(project: Project, folder: str = "") -> Path:
        target = copy_of(project.name, tmp_path / folder)
        monkeypatch.chdir(target)
        return target

    return go


def test_every_project_is_in_the_table_and_has_three_to_eight_files() -> None:
    assert {p.name for p in PROJECTS} == {p.name for p in PROGRAMS.iterdir()}
    assert {p.name for p in PROJECTS} == {p.stem for p in GOLDEN.iterdir()}
    for folder in PROGRAMS.iterdir():
        assert 3 <= len(list(folder.rglob("*.py"))) <= 8, folder.name


def test_at_least_nine_projects_are_verified_and_the_rest_say_why_not() -> None:
    assert sum(p.verdict == "EQUAL" for p in PROJECTS) >= 9
    assert all(bool(p.unverified) == (p.verdict != "EQUAL") for p in PROJECTS)


@by_name
def test_the_diff_is_the_stored_one(project: Project, here) -> None:
    here(project)
    conversion = convert_here(project.entry)
    assert conversion.way == project.way, conversion.reason
    assert stored(conversion) == (GOLDEN / f"{project.name}.diff").read_text(), (
        "if the change is wanted: `python -m tests.projects.regenerate`"
    )


@by_name
def test_the_result_compiles_and_a_second_run_changes_nothing(project: Project, here) -> None:
    folder = here(project)
    assert convert_here(project.entry).changes
    for path in folder.rglob("*.py"):
        ast.parse(path.read_text())
    assert not convert_program(Path(project.entry), Options()).changes


@by_name
def test_what_is_not_converted_is_said_with_its_place(project: Project, here) -> None:
    here(project)
    conversion = convert_here(project.entry)
    told = {(d.at.path, d.rule, d.at.line) for d in conversion.diagnostics if d.fix is None}
    assert marked(project) <= told, told
    questions = {(d.at.path, d.rule, d.at.line) for d in conversion.questions}
    assert questions <= marked(project), "a question that no mark of the project expects"
    changed = {change.path for change in conversion.changes}
    assert not changed & set(project.untouched)


# ---------------------------------------------------------------- the same training
@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer(preload=("numpy",)) as server:
        yield server


def check(project: Project, here, server: ForkServer, devices: int) -> None:
    before = here(project, f"before_{devices}")
    after = here(project, f"after_{devices}")
    convert_here(project.entry)
    gpus = [str(index) for index in range(devices)]
    words = [word for part in project.arguments for word in (gpus if part == "{gpus}" else [part])]
    request = VerifyRequest(
        before if project.module else before / project.entry,
        after,
        module=project.module,
        arguments=tuple(words),
        devices=devices,
        timeout=120.0,
        patience=10.0,
        cwd=before,
        **project.options,  # type: ignore[arg-type]
    )
    verdict = verify(request, server)
    assert verdict.status.value == project.verdict, to_text(verdict)
    assert verdict.steps > 0


@pytest.mark.parametrize("project", [p for p in PROJECTS if p.always], ids=lambda p: p.name)
def test_trains_the_same_on_two_devices(project: Project, here, server: ForkServer) -> None:
    check(project, here, server, 2)


@pytest.mark.long
@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("project", [p for p in PROJECTS if p.verdict], ids=lambda p: p.name)
def test_trains_the_same(project: Project, devices: int, here, server: ForkServer) -> None:
    check(project, here, server, devices)
