"""The demo's own machinery; the demo itself is run by `make demo`."""

import os
import sys
import time

import pytest

from reference_trainers import demo

ENV = dict(os.environ)


def test_run_returns_what_a_child_said_and_took(tmp_path):
    done = demo.run([sys.executable, "-c", "print('out'); raise SystemExit('err')"], tmp_path, ENV, 30)
    assert (done.code, done.stdout, done.stderr) == (1, "out\n", "err\n")
    assert done.cpu > 0
    assert done.wall > 0


def test_run_kills_the_whole_process_group_at_the_timeout(tmp_path):
    marker = tmp_path / "late"
    script = f"sleep 1.5 && touch {marker} & sleep 30"
    with pytest.raises(demo.StepFailed, match="not finished after 1 s"):
        demo.run(["sh", "-c", script], tmp_path, ENV, 1)
    time.sleep(1)
    assert not marker.exists()


def test_training_counts_by_its_checkpoint(tmp_path):
    with pytest.raises(demo.StepFailed, match="x: trained to epoch 2; it exited with 0"):
        demo.train("x", [sys.executable, "-c", "pass"], tmp_path / "out", ENV, 2)


@pytest.mark.parametrize("options", [["--devices", "1"], ["--devices", "3"], ["--keep", "."]])
def test_wrong_options_are_a_usage_error(options, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["demo", *options])
    with pytest.raises(SystemExit) as stop:
        demo.main()
    assert stop.value.code == 2
    assert options[0] in capsys.readouterr().err
