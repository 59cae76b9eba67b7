"""Convert a small program with policies, run it on gloo ranks, and read what every rank recorded."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.conversion import Conversion
from migrator.convert.pipeline import convert_program

ROOT = Path(__file__).resolve().parents[2]
WORLDS = [2, pytest.param(4, marks=pytest.mark.long)]


@dataclass(frozen=True)
class Ran:
    conversion: Conversion
    ranks: list[dict]
    log: str


@pytest.fixture(scope="session")
def server():
    env = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONWARNINGS": "ignore"}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.policies.server"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=env,
    ) as process:
        yield process
        process.stdin.close()


@pytest.fixture
def run(server, tmp_path):
    """A function that converts a program with options and runs it on a number of ranks."""
    (tmp_path / "train.py").touch()

    def run(text: str, world: int, arguments: tuple[str, ...] = (), **options: object) -> Ran:
        (tmp_path / "train.py").write_text(text)
        conversion = convert_program(tmp_path / "train.py", Options(**options))  # type: ignore[arg-type]
        assert not conversion.questions, conversion.questions
        for change in conversion.changes:
            Path(change.path).write_text(change.after)
        job = {"file": str(tmp_path / "train.py"), "folder": str(tmp_path), "world": world, "arguments": arguments}
        server.stdin.write(json.dumps(job) + "\n")
        server.stdin.flush()
        codes = json.loads(server.stdout.readline())
        logs = [(tmp_path / f"log{rank}.txt").read_text() for rank in range(world)]
        assert codes == [0] * world, "\n".join(logs) + (tmp_path / "train.py").read_text()
        ranks = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(world)]
        return Ran(conversion, ranks, logs[0])

    return run
