"""The resolver's answers do not depend on which question is asked first."""

import ast
from pathlib import Path

import pytest

from migrator.facts.program import Program
from migrator.load.project import load_project
from tests.projects.cases import PROJECTS
from tests.projects.tools import copy_of


def sites(program: Program) -> dict[str, list[tuple[str, int]]]:
    functions = [(m, n) for m in program.modules for n in m.nodes if isinstance(n, ast.FunctionDef)]
    found = {f"{m.path}:{n.lineno}": program.resolver.call_sites(n) for m, n in functions}
    return {name: [(module.path, call.lineno) for module, call in calls] for name, calls in found.items()}


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_what_calls_a_function_is_found_whatever_was_asked_before(project, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(copy_of(project.name, tmp_path))
    at_once = sites(Program(load_project(Path(project.entry), None, None)))
    program = Program(load_project(Path(project.entry), None, None))
    assert program.trains  # which asks what the arguments of calls may be
    assert sites(program) == at_once
