"""Every hazard of the catalogue in a small program: how it is converted, what is reported, and that it trains the same."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.modernise import modernise, refused_today
from migrator.convert.pipeline import convert_program
from migrator.verify import ForkServer, VerifyRequest, to_text, verify
from migrator.write.files import encoded

from .cases import ACCELERATE, CASES, Case
from .tools import GENERAL, PROGRAMS, convert_case, marked, reported

ROOT = Path(__file__).resolve().parents[2]
# These run in every test run; all the others with `make verify-all`.
FIRST = ("H05", "H09", "H24", "H48", "H50", "H54", "H104", "H124")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_hazard_has_a_program() -> None:
    assert [case.number for case in CASES] == [n for n in range(1, 125) if n not in ACCELERATE]
    assert {f"{case.program}.py" for case in CASES} == {p.name for p in PROGRAMS.glob("*.py")}


def test_at_most_ten_conversions_are_demoted() -> None:
    assert sum(1 for case in CASES if case.demoted) <= 10


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.program)
def test_conversion(case: Case, folder: Path) -> None:
    done = convert_case(case, folder)
    conversion = done.conversion
    assert conversion.way == case.way, conversion.reason
    converted = {d.rule for d in conversion.diagnostics if d.fix}
    assert set(case.rules) <= converted, converted
    told = {(Path(d.at.path).name, d.rule, d.at.line) for d in reported(conversion)}
    wanted = marked(case)
    assert wanted <= told, told
    questions = {(Path(d.at.path).name, d.rule, d.at.line) for d in conversion.questions}
    assert questions <= wanted, "a question that no mark of the program expects"
    assert bool(case.verdict) == (not questions), "a program is checked when there is nothing to decide"
    for text in done.texts.values():
        ast.parse(text)
    again = convert_program(Path(f"{case.program}.py"), Options())
    assert not again.changes, again.changes[0].after


@pytest.mark.parametrize("case", [c for c in CASES if c.catalogue.startswith("auto")], ids=lambda c: c.program)
def test_what_can_be_converted_is_converted(case: Case, folder: Path) -> None:
    """A question is an answer only to what the catalogue does not call convertible, and at places of its own."""
    conversion = convert_case(case, folder).conversion
    assert case.demoted or any(d.fix for d in conversion.diagnostics)
    own = {rule for _, rule, _ in marked(case)} - GENERAL
    assert all(d.rule in own for d in conversion.questions)


def test_marks_are_of_rules_that_exist() -> None:
    from codemods.registry import load_rules

    known = {rule.id for rule in load_rules()}
    assert {rule for case in CASES for _, rule, _ in marked(case)} <= known
    assert {rule for case in CASES for rule in case.rules} <= known


def test_every_rule_has_an_id_of_its_own() -> None:
    from codemods.registry import load_rules

    ids = [rule.id for rule in load_rules()]
    assert len(ids) == len(set(ids)), sorted({i for i in ids if ids.count(i) > 1})


def test_programs_are_what_people_write() -> None:
    for path in PROGRAMS.glob("h*.py"):
        text = path.read_text()
        assert "DataParallel" in text or "data_parallel" in text, path.name
        assert not re.search(r"mgmigrate|migrator|torchrun", text), path.name
        assert len(text.splitlines()) <= 75, path.name


def test_the_page_of_hazards_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("generate_hazards", ROOT / "docs" / "generate_hazards.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs" / "hazards.md").read_text(encoding="utf-8")
    assert page == module.page(), "out of date: run `python docs/generate_hazards.py`"
    assert re.findall(r"^\| H(\d+) \|", page, re.M) == [f"{n:02}" for n in range(1, 125)]


# ---------------------------------------------------------------- the same training
@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer(preload=("numpy", "torchvision")) as server:
        yield server


def check(case: Case, folder: Path, server: ForkServer, devices: int) -> None:
    before, after = folder / "before", folder / "after"
    before.mkdir()
    after.mkdir()
    for name in (f"{case.program}.py", *case.files):
        (before / name).write_bytes((PROGRAMS / name).read_bytes())
    modern = modernise(before / f"{case.program}.py")
    if refused_today(modern):
        for change in modern.changes:
            Path(change.path).write_bytes(encoded(change))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(after)
        convert_case(case, after)
    request = VerifyRequest(
        before / f"{case.program}.py",
        after,
        devices=devices,
        timeout=120.0,
        patience=10.0,
        cwd=before,
        **{"float64": True, **case.options},  # type: ignore[arg-type]
    )
    verdict = verify(request, server)
    assert verdict.status.value == case.verdict, to_text(verdict)
    assert verdict.steps > 0


@pytest.mark.parametrize("case", [c for c in CASES if c.row in FIRST], ids=lambda c: c.program)
def test_the_most_important_train_the_same(case: Case, folder: Path, server: ForkServer) -> None:
    check(case, folder, server, 2)


@pytest.mark.long
@pytest.mark.parametrize("case", [c for c in CASES if c.verdict], ids=lambda c: c.program)
def test_trains_the_same(case: Case, folder: Path, server: ForkServer) -> None:
    for devices in {2, case.devices}:
        place = folder / f"on_{devices}"
        place.mkdir()
        check(case, place, server, devices)
