"""The whole projects of tests/projects, measured from the command line on a machine without a GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.projects.cases import PROJECTS
from tests.projects.tools import copy_of

pytestmark = pytest.mark.long
MEASURED = [project for project in PROJECTS if not project.unverified]
ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize("project", MEASURED, ids=lambda project: project.name)
def test_a_project_is_measured_before_and_after(project, tmp_path):
    folder = copy_of(project.name, tmp_path)
    arguments = [part for word in project.arguments for part in (["0", "1"] if word == "{gpus}" else [word])]
    start = [".", "-m", project.module] if project.module else [project.entry]
    quick = ["--gpus", "none", "--rounds", "1", "--warmup", "1", "--steps", "1", "--windows", "2", "--profile", "0"]
    words = [sys.executable, "-m", "migrator", "bench", *start, *quick, "--format", "json", "--timeout", "120"]
    done = subprocess.run(
        [*words, "--", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    told = {v["name"]: (v["status"], v["error"]) for v in report["variants"]}
    assert told["single"][0] == told["ddp"][0] == "measured", told
    batches = {v["work"]["global_batch"] for v in report["variants"] if v["work"]}
    assert len(batches - {None}) <= 1, told
