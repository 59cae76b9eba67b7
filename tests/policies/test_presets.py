"""`--preset` on the reference trainer, and launches that meet: each runs as its user would run it."""

import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.pipeline import convert_program
from migrator.policies import PRESETS

TRAINER = Path(__file__).resolve().parents[2] / "reference_trainers" / "resnet_dp.py"
ARGUMENTS = (
    "--arch",
    "resnet8",
    "--synthetic",
    "--synthetic-samples",
    "64",
    "--image-size",
    "32",
    "--num-classes",
    "4",
)
ARGUMENTS += ("--batch-size", "8", "--workers", "0", "--epochs", "2", "--print-freq", "1")


@pytest.mark.long
@pytest.mark.parametrize("world", [2, 4])
def test_the_fast_preset_trains_the_reference_trainer(run, world):
    ran = run(TRAINER.read_text(), world, ARGUMENTS, **PRESETS["fast"])
    assert ran.conversion.policies == ("--batch per-gpu", "--amp bf16")
    steps = 64 // 8 // world
    warm_up = math.ceil(0.05 * 2 * steps)
    epochs = [0.05, 0.025]  # the trainer's cosine schedule over two epochs
    expected = [epochs[t // steps] * (1 + (world - 1) * min(1, t / warm_up)) for t in range(2 * steps)]
    for rank in ran.ranks:
        assert rank["rates"] == pytest.approx(expected, rel=1e-3)
        assert rank["sums"] == ran.ranks[0]["sums"]
    assert f"Epoch [1][{steps - 1}/{steps}]" in ran.log
    assert re.search(r"^best accuracy: [\d.]+$", ran.log, re.M)
    assert ran.log.count("Acc@5") == 2, "one process speaks"


@pytest.mark.long
def test_two_launches_at_once_do_not_collide_and_a_port_can_be_chosen(tmp_path):
    program = TRAINER.read_text()
    launches = []
    for number, options in enumerate([Options(), Options(), Options(master_port=29731)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "train.py").write_text(program)
        conversion = convert_program(folder / "train.py", options)
        for change in conversion.changes:
            Path(change.path).write_text(change.after)
        line = conversion.launch.replace(str(folder / "train.py"), "train.py").replace("=gpu", "=2")
        assert ("--master_port=29731" in line) is (number == 2)
        assert ("--standalone" in line) is (number != 2)
        words = [str(Path(sys.executable).with_name("torchrun")), *line.split()[1:], *ARGUMENTS]
        with (folder / "log").open("w") as log:
            launches.append(subprocess.Popen(words, cwd=folder, stdout=log, stderr=subprocess.STDOUT))
    for number, launch in enumerate(launches):
        try:
            code = launch.wait(timeout=300)
        finally:
            launch.kill()
        said = (tmp_path / str(number) / "log").read_text()
        assert code == 0 or "SIGABRT" in said, said  # gloo's threads may abort an orderly exit
        assert "best accuracy" in said, said
