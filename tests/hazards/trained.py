"""A text is converted and checked: before and after must train the same in float64."""

from __future__ import annotations

from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.pipeline import convert_program
from migrator.verify import ForkServer, Status, VerifyRequest, to_text, verify
from migrator.write.files import encoded

DDP = Options()


def check_equal(
    text: str,
    folder: Path,
    server: ForkServer,
    monkeypatch: pytest.MonkeyPatch,
    devices: int = 2,
    options: Options = DDP,
) -> None:
    """The converted program is EQUAL to the original on so many simulated devices."""
    before, after = folder / "before", folder / "after"
    for place in (before, after):
        place.mkdir()
        (place / "train.py").write_text(text)
    monkeypatch.chdir(after)
    for change in convert_program(Path("train.py"), options).changes:
        Path(change.path).write_bytes(encoded(change))
    request = VerifyRequest(before / "train.py", after, devices=devices, float64=True, timeout=120, cwd=before)
    verdict = verify(request, server)
    assert verdict.status is Status.EQUAL, to_text(verdict)
