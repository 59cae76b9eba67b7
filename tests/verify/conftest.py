"""One fork server for all tests: torch is imported once, and a small pair costs about half a second of CPU time."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from migrator.verify import ForkServer, Verdict, VerifyRequest, verify


@pytest.fixture(scope="session")
def server() -> Iterator[ForkServer]:
    with ForkServer(preload=("numpy", "torchvision", "transformers")) as server:
        yield server


@pytest.fixture
def check(server: ForkServer, tmp_path: Path) -> Callable[..., Verdict]:
    """Write both programs and verify the pair: check(before, after, **request)."""

    def run(before: str, after: str, files: dict[str, str] | None = None, **options: Any) -> Verdict:
        folder = tmp_path / "project"
        folder.mkdir(exist_ok=True)
        for name, text in {"train.py": before, "train_ddp.py": after, **(files or {})}.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        defaults: dict[str, Any] = {"devices": 2, "timeout": 120.0, "patience": 6.0, "cwd": folder}
        request = VerifyRequest(folder / "train.py", folder / "train_ddp.py", **{**defaults, **options})
        return verify(request, server)

    return run
