"""The split at the call equals torch's DataParallel, on two and four processes and alone."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
from tests.split.checks import CHECKS

ROOT = Path(__file__).parents[2]
TIMEOUT = 170


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("split")
    env = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "tests.split.ranks", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=env, timeout=TIMEOUT, capture_output=True, text=True)
    found = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
    return {**found, "log": done.stdout + done.stderr}


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("name", CHECKS)
def test_equals_data_parallel(results: dict[str, Any], name: str, world: int) -> None:
    outcome = results.get(f"world{world}", {}).get(name)
    assert outcome is not None, f"did not run: an earlier check hung or died\n{results['log'][-3000:]}"
    assert not outcome["error"], outcome["error"]


def test_one_process(results: dict[str, Any]) -> None:
    assert results["alone"]["error"] == ""
