"""Runs that hang, crash or are interrupted: the error is the program's own, and nothing is left behind."""

import json
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import launch
from benchmarks.launch import Measuring, Plan, RunFailed, command_of, marked, start

PLAN = Plan("ddp", "DDP", 2, 2, "cpu", "train.py", {}, "torchrun")
QUICK = Measuring(1, 2, 1, timeout=20.0)


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Start a stand-in program (no torch): started(text, plan, measuring)."""
    monkeypatch.setattr(launch, "GRACE", 0.3)

    def run(text, plan=PLAN, measuring=QUICK):
        script = tmp_path / "stand_in.py"
        script.write_text("import json, os, sys, time\nfolder = os.path.dirname(sys.argv[1])\n" + textwrap.dedent(text))
        monkeypatch.setattr(
            launch, "command_of", lambda plan, settings, port: [sys.executable, "-S", str(script), str(settings)]
        )
        return start(plan, measuring, tmp_path, tmp_path, tmp_path / "out", ["--x"])

    return run


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


WRITES = """
for rank in range(2):
    document = {"rank": rank, "windows": [0.5], "count": 3}
    open(f"{folder}/rank.{rank}.json", "w").write(json.dumps(document))
"""


def test_a_run_gives_what_its_ranks_wrote(started):
    assert [d["rank"] for d in started(WRITES)] == [0, 1]


def test_a_program_that_never_ends_after_its_windows_is_ended(started):
    begun = time.monotonic()
    assert len(started(WRITES + "time.sleep(60)\n")) == 2
    assert time.monotonic() - begun < 15


def test_a_run_that_hangs_is_ended_with_all_that_it_started(started, tmp_path):
    text = """
    print("waiting for data", flush=True)
    for number in range(2):
        if os.fork() == 0:
            if number:
                os.setsid()  # leaves the session
            open(f"{folder}/pid{number}", "w").write(str(os.getpid()))
            time.sleep(60)
    time.sleep(60)
    """
    with pytest.raises(RunFailed, match=r"not finished after 1 s \(--timeout\).*waiting for data"):
        started(text, measuring=replace(QUICK, timeout=1.0))
    pids = [int((tmp_path / "out" / f"pid{n}").read_text()) for n in range(2)]
    assert not any(alive(pid) for pid in pids)


def test_a_silent_death_shows_the_log(started):
    with pytest.raises(
        RunFailed, match="2 of 2 processes ended with code 3 and without a word; the log ends: no GPU here"
    ):
        started("print('no GPU here')\nsys.exit(3)\n")


def test_the_first_cause_is_told_and_not_the_broken_connections(started):
    text = """
    json.dump({"kind": "R", "message": "RuntimeError: Connection closed by peer", "steps": 4}, open(f"{folder}/error.0.json", "w"))
    json.dump({"kind": "O", "message": "OutOfMemoryError: CUDA out of memory", "steps": 4}, open(f"{folder}/error.1.json", "w"))
    time.sleep(60)
    """
    with pytest.raises(RunFailed, match="OutOfMemoryError: CUDA out of memory, after 4 steps"):
        started(text)


@pytest.mark.parametrize(
    "windows, count, said",
    [([], 0, "took no optimizer step"), ([], 2, "ended after 2 optimizer steps; warm-up and one window need 3")],
)
def test_too_few_steps_say_what_to_do(started, windows, count, said):
    text = WRITES.replace("[0.5]", str(windows)).replace('"count": 3', f'"count": {count}')
    with pytest.raises(RunFailed, match=said):
        started(text)


def test_scratch_files_of_launcher_and_program_go_with_the_run(started, tmp_path):
    import tempfile

    text = "import tempfile\nopen(f'{folder}/where', 'w').write(tempfile.mkdtemp())\n" + WRITES
    started(text)
    made = Path((tmp_path / "out" / "where").read_text())
    assert made.parent.parent == Path(tempfile.gettempdir())
    assert not made.parent.exists()


def test_ctrl_c_ends_the_run(started, tmp_path, monkeypatch):
    def interrupted(_):
        path = tmp_path / "out" / "pid"
        if path.exists() and path.read_text():
            monkeypatch.undo()
            raise KeyboardInterrupt

    monkeypatch.setattr(launch.time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        started("open(f'{folder}/pid', 'w').write(str(os.getpid()))\ntime.sleep(60)\n")
    assert not alive(int((tmp_path / "out" / "pid").read_text()))


def test_other_processes_do_not_bear_the_mark():
    assert marked("no such run") == []


def test_the_processes_are_torchrun_s_and_accelerate_s_own(tmp_path):
    words = command_of(PLAN, tmp_path / "s.json")
    assert words[1:5] == ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    words = command_of(replace(PLAN, launcher="accelerate"), tmp_path / "s.json", 1234)
    assert words[1:4] == ["-m", "accelerate.commands.launch", "--multi_gpu"]
    assert command_of(replace(PLAN, launcher="python", processes=1), tmp_path / "s.json")[1] == "-u"
    assert json.dumps(words)
