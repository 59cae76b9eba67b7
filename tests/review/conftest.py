"""Programs in an empty folder, and their pages."""

from collections.abc import Callable
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.conversion import Conversion
from migrator.convert.pipeline import convert_program
from migrator.formats.report import Report
from migrator.review.page import page_bytes, render_page
from migrator.review.verdict import Verdict
from tests.convert.conftest import PROGRAM, cli  # noqa: F401

from .programs import write_project


@pytest.fixture
def folder(monkeypatch, tmp_path) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def convert(text: str, name: str = "train.py", **options: object) -> Conversion:
    """The conversion of a program that is written to the current folder."""
    Path(name).write_text(text)
    return convert_program(Path(name), Options(**options))  # type: ignore[arg-type]


def page_of(conversion: Conversion, verdict: Verdict | None = None, **options: object) -> str:
    """The page as a browser reads it."""
    report = Report([conversion], [], Options(**options), verdict)  # type: ignore[arg-type]
    return page_bytes(render_page(report)).decode()


@pytest.fixture
def page(folder) -> Callable[..., str]:
    return lambda text=PROGRAM, name="train.py", **options: page_of(convert(text, name, **options), **options)


@pytest.fixture(scope="session")
def project(tmp_path_factory) -> tuple[Path, Conversion]:
    """Eight files with sixty hunks, converted from within their folder's parent."""
    entry = write_project(tmp_path_factory.mktemp("project"))
    return entry, convert_program(entry, Options())
