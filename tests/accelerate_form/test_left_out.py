"""Parameters that a step leaves out get zeros in accelerate's form too, so that weight decay goes on as under DataParallel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.pipeline import convert_program
from migrator.load.source import Source
from migrator.verify import ForkServer
from tests.hazards.tools import PROGRAMS
from tests.hazards.trained import check_equal

ACCELERATE = Options(target="accelerate")
LEFT_OUT = ["h51_part_that_is_never_used", "h52_branch_in_forward", "h124_unused_parameters_and_decay"]


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer() as server:
        yield server


@pytest.mark.parametrize("name", LEFT_OUT)
def test_batches_are_shared_out(name: str) -> None:
    text = (PROGRAMS / f"{name}.py").read_text()
    conversion = convert_program(Path("train.py"), ACCELERATE, Source("train.py", text))
    assert conversion.way == "distributed", conversion.reason
    assert any("= zeros_for_unused(" in change.after for change in conversion.changes)


@pytest.mark.parametrize("name", LEFT_OUT)
def test_it_trains_the_same(name: str, tmp_path: Path, server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    check_equal((PROGRAMS / f"{name}.py").read_text(), tmp_path, server, monkeypatch, options=ACCELERATE)
