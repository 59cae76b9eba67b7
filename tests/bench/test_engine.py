"""The whole benchmark: plans, turns, failures of one form, and a real one on the CPU."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks import engine, forms
from benchmarks.engine import benchmark
from benchmarks.forms import Request, make_plans
from benchmarks.launch import Measuring, RunFailed
from benchmarks.nvml import Sampled, reasons, sampling
from benchmarks.references import REFERENCES, arguments_of, program_of
from benchmarks.results import read
from benchmarks.show import to_text
from migrator.cli.app import app
from migrator.cli.bench_request import find_gpus as chosen_gpus

from .conftest import MLP
from .machines import FOUR, NONE

PROGRAM = MLP.replace("SAMPLES", "4000").replace(MLP[MLP.index("    with torch.no_grad") : MLP.index("print(")], "")


@pytest.fixture
def request_of(tmp_path):
    program = tmp_path / "project" / "train.py"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    return Request(program, "mgmigrate bench train.py", rounds=2, measuring=Measuring(2, 3, 2), profile_steps=0)


def document(rank, world, rate=1.0):
    return {
        "rank": rank,
        "world": world,
        "finished": True,
        "count": 8,
        "first_step": 2.0,
        "windows": [0.3 / rate, 0.3 / rate],
        "step_ms": [100 / rate] * 6,
        "samples": [8.0 / world] * 6,
        "wait": [0.001] * 6,
        "boundary": [False] * 6,
        "cpu_share": 0.95,
        "hook_share": 0.001,
        "workers": 0,
        "autocast": None,
        "work": {"optimizer": "SGD", "dtype": "float32", "channels_last": None, "tf32": None},
        "memory": [
            {"device": f"cuda:{rank}", "uuid": f"GPU-{rank}", "allocated": 1, "reserved": 2, "used": None, "total": 4}
        ],
        "versions": {"torch": "2.14.1", "nccl": "2.28.3"},
        "trace": None,
        "profile_error": None,
    }


class Starter:
    """Stands in for `start`: remembers the turns; fails or is interrupted where it is told to."""

    def __init__(self, fails=(), interrupted=None):
        self.turns, self.fails, self.interrupted, self.written = [], fails, interrupted, {}

    def __call__(self, plan, measuring, copy, cwd, folder, arguments, watch):
        self.turns.append(plan.name)
        self.written[plan.name] = (copy / plan.entry).read_text()
        (copy / "checkpoint.pt").write_text("x")
        if len(self.turns) == self.interrupted:
            raise KeyboardInterrupt
        if plan.name in self.fails:
            raise RunFailed("OutOfMemoryError: CUDA out of memory (train.py:9), after 0 steps")
        return [document(r, plan.processes, 1.0 + 0.8 * (plan.processes - 1)) for r in range(plan.processes)]


def run(request, monkeypatch, machine=NONE, **how):
    starter = Starter(**how)
    monkeypatch.setattr(engine, "start", starter)
    return benchmark(request, None, machine), starter


def test_on_gpus_there_is_one_card_all_under_data_parallel_and_all_under_ddp(request_of):
    plans, missing = make_plans(replace(request_of, gpus=FOUR.gpus))
    assert missing == []
    assert [(p.name, p.devices, p.processes, p.launcher) for p in plans] == [
        ("single", 1, 1, "python"),
        ("dp", 4, 1, "python"),
        ("ddp", 4, 4, "torchrun"),
    ]
    assert [p.visible for p in plans] == ["GPU-0", "GPU-0,GPU-1,GPU-2,GPU-3", "GPU-0,GPU-1,GPU-2,GPU-3"]


def test_on_one_gpu_ddp_has_a_world_of_one(request_of):
    plans, missing = make_plans(replace(request_of, gpus=FOUR.gpus[:1]))
    assert [(p.name, p.processes) for p in plans] == [("single", 1), ("ddp", 1)]
    assert missing[0].status == "passes-through"


def test_forms_take_turns_and_leave_the_user_s_folder_alone(request_of, monkeypatch):
    before = sorted(p.name for p in request_of.program.parent.iterdir())
    report, starter = run(request_of, monkeypatch)
    assert starter.turns == ["single", "ddp", "ddp", "single"]
    assert "DistributedDataParallel" in starter.written["ddp"]
    assert starter.written["single"] == PROGRAM
    assert sorted(p.name for p in request_of.program.parent.iterdir()) == before
    assert [v.name for v in report.variants] == ["single", "dp", "ddp"]
    assert report.variant("dp").status == "passes-through"
    ddp = report.variant("ddp")
    assert (len(ddp.runs), ddp.work.global_batch, ddp.work.per_device_batch) == (2, 8, 4)


def test_a_form_that_fails_is_isolated(request_of, monkeypatch):
    report, starter = run(replace(request_of, gpus=FOUR.gpus), monkeypatch, FOUR, fails=("single",))
    assert starter.turns.count("single") == 1
    assert starter.turns.count("ddp") == 2
    assert report.variant("single").status == "failed"
    assert report.variant("ddp").status == "measured"
    text = to_text(report)
    assert "one device failed: OutOfMemoryError: CUDA out of memory" in text
    assert "NV12" in text
    assert "NCCL 2.28.3" in text
    assert "P2P" in text


def test_a_form_that_cannot_be_made_is_named(request_of, monkeypatch):
    request_of.program.write_text("print('nothing here')\n")
    report, _ = run(request_of, monkeypatch)
    assert report.variant("ddp").status == "not-available"
    assert "does not use DataParallel" in report.variant("ddp").error


def test_a_fault_of_the_converter_stops_no_other_form(request_of, monkeypatch):
    def broken(*_):
        raise KeyError("x")

    monkeypatch.setattr(forms, "convert_program", broken)
    report, _ = run(request_of, monkeypatch)
    assert "internal error (KeyError" in report.variant("ddp").error
    assert report.variant("single").status == "measured"


def test_ctrl_c_gives_what_was_measured(request_of, monkeypatch):
    report, _ = run(request_of, monkeypatch, interrupted=3)
    assert [len(v.runs) for v in report.variants] == [1, 0, 1]
    assert "Interrupted" in to_text(report)
    assert report.interrupted


def test_a_converted_program_of_the_user_s_own(request_of, monkeypatch):
    mine = request_of.program.parent / "train_ddp.py"
    mine.write_text("# by hand\n")
    report, starter = run(replace(request_of, after=mine), monkeypatch)
    assert starter.written["ddp"] == "# by hand\n"
    assert report.variant("ddp").launch == "torchrun --standalone --nproc_per_node=2 -- train_ddp.py"


@pytest.mark.parametrize(
    "visible, asked, indices",
    [
        (None, "all", [0, 1, 2, 3]),
        ("2,0", "all", [2, 0]),
        ("", "all", []),
        ("GPU-1", "all", [1]),
        (None, "1,3", [1, 3]),
        (None, "none", []),
    ],
)
def test_gpus_are_chosen_by_number_and_by_what_is_visible(monkeypatch, visible, asked, indices):
    monkeypatch.setattr("migrator.cli.bench_request.read_gpus", lambda: (FOUR.gpus, FOUR.links))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [gpu.index for gpu in chosen_gpus(asked)] == indices


def test_reference_trainers_train_for_longer_than_is_looked_at():
    for name in REFERENCES:
        assert program_of(name).is_file()
        words = arguments_of(name, 100, cuda=True)
        assert int(words[words.index(REFERENCES[name].samples) + 1]) >= 100 * int(
            words[words.index("--batch-size") + 1]
        )


class Nvml:
    """A stand-in for pynvml with one busy GPU."""

    NVML_CLOCK_SM = 1

    def nvmlDeviceGetHandleByUUID(self, uuid):
        return uuid

    def nvmlDeviceGetMemoryInfo(self, handle):
        return type("M", (), {"used": 5, "total": 10})

    def nvmlDeviceGetUtilizationRates(self, handle):
        return type("U", (), {"gpu": 90})

    def nvmlDeviceGetClockInfo(self, handle, kind):
        return 1410

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
        return 0x4


def test_nvml_is_sampled_by_uuid_beside_the_run():
    with sampling(["GPU-0"], Nvml()) as found:
        time.sleep(0.15)
    assert found[0] == Sampled("GPU-0", 5, 10, found[0].utilisation, found[0].clocks, {"power cap"})
    assert set(found[0].utilisation) == {90.0}
    assert reasons(0x1) == set()
    assert reasons(0x8 | 0x40) == {"hardware slowdown", "hardware thermal limit"}


def cli(folder, *words, timeout=240):
    return subprocess.run(
        [sys.executable, "-m", "migrator", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "PYTHONPATH": str(Path(engine.__file__).parent.parent), "OMP_NUM_THREADS": "1"},
    )


def test_bench_of_a_program_whose_folder_owns_a_benchmarks_package(tmp_path):
    """From the command line, with torchrun and two gloo ranks; the program imports its own `benchmarks`."""
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").write_text("MINE = True\n")
    (tmp_path / "train.py").write_text("import benchmarks\nassert benchmarks.MINE\n" + PROGRAM)
    done = cli(
        tmp_path,
        "bench",
        "train.py",
        "--rounds",
        "1",
        "--steps",
        "4",
        "--warmup",
        "2",
        "--profile",
        "2",
        "-o",
        "a.json",
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert "nothing here is a claim about GPUs" in done.stdout
    assert "passes through, not measured" in done.stdout
    report = read(tmp_path / "a.json")
    assert [v.status for v in report.variants] == ["measured", "passes-through", "measured"]
    assert [v.work.global_batch for v in report.variants if v.work] == [8, 8]
    assert report.variant("ddp").communication.total_ms > 0
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "__pycache__") == ["a.json", "benchmarks", "train.py"]
    compared = cli(tmp_path, "bench", "compare", "a.json", "a.json")
    assert compared.returncode == 0, compared.stderr
    assert "1.00×" in compared.stdout


@pytest.mark.parametrize(
    "words, said",
    [
        (["bench"], "give one program"),
        (["bench", "none.py"], "no such file"),
        (["bench", "--reference", "vgg"], "there are resnet50"),
        (["bench", "compare", "a.json"], "takes two reports"),
        (["bench", "compare", "a.json", "b.json"], "cannot be read"),
    ],
)
def test_mistakes_are_one_line(tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, words)
    assert done.exit_code in (2, 4)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_schema_is_shown():
    done = CliRunner().invoke(app, ["bench", "--schema"])
    assert done.exit_code == 0


@pytest.mark.long
@pytest.mark.parametrize("name", ["SIGINT", "SIGHUP"])
def test_an_interrupted_benchmark_shows_what_was_measured_and_leaves_nothing(tmp_path, name):
    """The whole tool, while torchrun's second run goes on: Ctrl-C, or a terminal that is closed."""
    project, scratch = tmp_path / "project", tmp_path / "scratch"
    project.mkdir()
    scratch.mkdir()
    (project / "train.py").write_text(PROGRAM)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(scratch)}
    environment["PYTHONPATH"] = str(Path(engine.__file__).parent.parent)
    words = [sys.executable, "-m", "migrator", "bench", "train.py", "--gpus", "none", "--rounds", "2", "--steps", "3"]
    said = tmp_path / "said"
    with said.open("wb") as out:
        tool = subprocess.Popen(
            words,
            cwd=project,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=out,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # under nohup it would be ignored, rightly
        )
    limit = time.monotonic() + 240
    while "[3/4]" not in said.read_text() and time.monotonic() < limit:
        time.sleep(0.1)
    time.sleep(4)
    assert carrying(str(scratch)) > 1  # the tool, and what it started
    tool.send_signal(getattr(signal, name))
    text, _ = tool.communicate(timeout=60)
    assert tool.returncode == 130
    assert "Interrupted: this is what was measured until then" in text
    assert "samples/s" in text
    assert carrying(str(scratch)) == 0
    assert list(scratch.iterdir()) == []


def carrying(word):
    """Living processes with a word in their environment."""
    found = 0
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            found += word.encode() in entry.read_bytes()
    return found
