"""The folder for everything that a check writes."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .settings import SCRATCH, SHORT_SCRATCH, VerifyRequest


@contextlib.contextmanager
def scratch(request: VerifyRequest) -> Iterator[Path]:
    """An empty folder for everything that the check writes."""
    if request.keep is not None:
        request.keep.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=request.keep))
    else:
        folder = Path(tempfile.mkdtemp(prefix=SCRATCH))
    (folder / "states").mkdir()
    # Sockets of loader workers lie in the temporary folder, and their paths must be short.
    short = Path(tempfile.mkdtemp(prefix=SHORT_SCRATCH))
    (folder / "tmp").symlink_to(short)
    try:
        yield folder.resolve()
    finally:
        shutil.rmtree(short, ignore_errors=True)
        (folder / "tmp").unlink()
        if request.keep is None:
            shutil.rmtree(folder, ignore_errors=True)


def inner(folder: Path, name: str) -> Path:
    """A second scratch folder inside the first."""
    place = folder / name
    (place / "states").mkdir(parents=True)
    (place / "tmp").symlink_to((folder / "tmp").resolve())
    return place
