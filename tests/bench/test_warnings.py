"""Each warning raised by real runs of small programs on this machine, or by what real machines and reports said.

Real runs are forks under the hooks, made slow, uneven or busy on purpose; the CPU report is recorded; cards that are not here are
what nvidia-smi and NVML say of them.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.aggregate import make_communication, make_run, make_work
from benchmarks.articles import BERT_LARGE, RESNET50
from benchmarks.environment import read_environment
from benchmarks.forms import Request
from benchmarks.honesty import CODES, find_warnings
from benchmarks.nvml import sampling
from benchmarks.results import Claim, Environment, Report, Variant, read
from migrator.machines.machine import parse_gpus, parse_matrix

from .conftest import MLP
from .machines import FOUR
from .test_engine import Nvml, document

RECORDED = Path(__file__).parent / "recorded"
LONG = MLP.replace("SAMPLES", "800")
STEP = "        loss = nn.functional.cross_entropy(model(x), y)\n"
SLEEPS = "import time\n" + LONG.replace(STEP, "        time.sleep(0.03)\n" + STEP)


@pytest.fixture
def measured(forked):
    """A variant as the engine makes it, from a real run: measured(name, text, devices=1)."""

    def run(name, text, devices=1, steps=4, **settings):
        ran = forked(text, steps=steps, windows=3, **settings)
        assert ran.error is None, ran.error
        for path in ran.folder.glob("*.json"):
            path.unlink()
        one = make_run(ran.documents, 0, steps, False, 0.5)
        return Variant(
            name, name, "measured", devices, devices, work=make_work(ran.documents, one, devices), runs=(one,)
        )

    return run


def report_of(*variants, device="cpu", **changed):
    values = dict(environment=Environment(cpus=64), variants=variants, **changed)
    return Report("train.py", "mgmigrate bench", "", device, "measured", **values)


def codes(report):
    return {(w.code, w.variant) for w in find_warnings(report)}


def test_a_loader_that_is_slower_than_the_model_is_data_bound(measured):
    slow = "import time\n" + LONG.replace(
        "loader = DataLoader(data,",
        "take = type(data).__getitem__\ntype(data).__getitem__ = lambda s, i: (time.sleep(0.001), take(s, i))[1]\nloader = DataLoader(data,",
    )
    assert ("DATA_BOUND", "single") in codes(report_of(measured("single", slow)))


def test_a_program_that_gets_slower_from_window_to_window_is_noisy(measured):
    uneven = "import time\nnumber = 0\n" + LONG.replace(
        STEP, "        number += 1\n        time.sleep(0.002 * number)\n" + STEP
    )
    found = codes(report_of(measured("single", uneven)))
    assert ("NOISY", "single") in found


def test_two_programs_on_one_processor_are_contended(measured):
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("processes are not bound to a CPU here")
    busy = (
        "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "parent = os.getpid()\nrival = os.fork()\nif rival == 0:\n    while os.getppid() == parent:\n        pass\n    os._exit(0)\n"
    )
    heavy = LONG.replace(
        "nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)", "nn.Linear(16, 4096), nn.ReLU(), nn.Linear(4096, 4)"
    )
    variant = measured("single", busy + heavy, steps=20)
    assert variant.runs[0].cpu_share < 0.85
    assert ("CONTENDED", "single") in codes(report_of(variant))


def test_sides_that_do_not_do_the_same_work_are_told_apart(measured):
    one = measured("single", SLEEPS)
    larger = measured("ddp", SLEEPS.replace("batch_size=8", "batch_size=16"))
    half = measured(
        "ddp:amp-bf16", SLEEPS.replace(STEP, "        with torch.autocast('cpu', torch.bfloat16):\n    " + STEP)
    )
    found = codes(report_of(one, larger, half))
    assert ("GLOBAL_BATCH_CHANGED", "ddp") in found
    assert ("UNEQUAL_WORK", "ddp:amp-bf16") in found
    assert ("GLOBAL_BATCH_CHANGED", "ddp:amp-bf16") not in found


def test_a_lone_run_that_waits_makes_the_other_superlinear(measured):
    found = codes(report_of(measured("single", SLEEPS), measured("ddp", LONG, devices=2)))
    assert ("SUPERLINEAR", "ddp") in found


def test_steps_that_are_nothing_show_what_the_harness_takes(measured):
    nothing = """
    import torch
    p = torch.nn.Parameter(torch.ones(3))
    p.grad = torch.ones(3)
    o = torch.optim.SGD([p], 0.1)
    for _ in range(100):
        o.step()
    """
    assert ("HOOKS", "single") in codes(report_of(measured("single", nothing)))


def test_processes_that_train_each_for_itself_are_found_out(forked):
    text = "import os\nos.environ.pop('STORE')\n" + SLEEPS
    ran = forked(text, ranks=2, steps=4, windows=2, profile_steps=2)
    assert ran.error is None, ran.error
    run = make_run(ran.documents, 0, 4, False, 0.5)
    communication, why = make_communication(ran.documents)
    assert why == ""
    variant = Variant("ddp", "ddp", "measured", 2, 2, runs=(run,), communication=communication)
    assert ("NO_EXCHANGE", "ddp") in codes(report_of(variant))


def test_a_recorded_benchmark_on_a_busy_machine_gives_no_verdict():
    report = read(RECORDED / "busy_cpu.json")
    found = {code for code, _ in codes(report)}
    assert {"SUPERLINEAR", "NOISY", "CONTENDED"} <= found


TOPOLOGY = """\
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity
GPU0\t X \tPHB\t0-31\t0
GPU1\tPHB\t X \t0-31\t0
"""
NO_PEERS = """\
 \tGPU0\tGPU1
 GPU0\tX\tCNS
 GPU1\tCNS\tX
"""
CARDS = """\
0, NVIDIA GeForce RTX 4090, GPU-0, 24564, 4, 0, [N/A], 580.95.05
1, NVIDIA GeForce RTX 4090, GPU-1, 24564, 4, 0, [N/A], 580.95.05
"""


def on_cards(tmp_path, **stats):
    """A report of two ranks on two cards, from what nvidia-smi, NVML and the ranks say."""
    gpus, driver = parse_gpus(CARDS)
    machine = replace(FOUR, gpus=gpus, driver=driver, links=parse_matrix(TOPOLOGY), peers=parse_matrix(NO_PEERS))
    request = Request(tmp_path / "train.py", "mgmigrate bench train.py", gpus=gpus)
    variants = []
    for name, devices, clock in (("single", 1, 2520), ("ddp", 2, stats.get("clock", 2520))):
        card = type("Card", (Nvml,), {})()
        card.nvmlDeviceGetClockInfo = lambda handle, kind, clock=clock: clock
        card.nvmlDeviceGetCurrentClocksThrottleReasons = lambda handle: stats.get("bits", 0)
        with sampling([gpu.uuid for gpu in gpus[:devices]], card) as sampled:
            while not all(one.clocks for one in sampled):
                pass
        documents = [document(r, devices) for r in range(devices)]
        run = make_run(documents, 0, 3, False, 0.5, sampled)
        variants.append(
            Variant(name, name, "measured", devices, devices, work=make_work(documents, run, devices), runs=(run,))
        )
    report = report_of(*variants, device="cuda", model="resnet50")
    return replace(report, environment=read_environment(request, machine, {}))


def test_a_program_that_names_fewer_cards_than_it_was_given_is_found_out():
    said = document(0, 1)
    said["memory"] = [
        {**said["memory"][0], "device": f"cuda:{i}", "uuid": f"GPU-{i}", "allocated": 0 if i else 9} for i in range(4)
    ]
    run = make_run([said], 0, 3, False, 0.5)
    found = codes(report_of(Variant("dp", "DataParallel", "measured", 4, 1, runs=(run,)), device="cuda"))
    assert ("IDLE_DEVICES", "dp") in found


def test_cards_that_cannot_reach_each_other_are_named(tmp_path):
    report = on_cards(tmp_path)
    assert report.environment.p2p is False
    assert ("NO_P2P", None) in codes(report)
    assert ("BELOW_ANCHOR", "single") in codes(report)  # 80 samples/s on a card with 721 published


@pytest.mark.parametrize("stats, variant", [({"bits": 0x20}, "ddp"), ({"bits": 0x4}, "ddp"), ({"clock": 1800}, None)])
def test_lowered_clocks_are_named(tmp_path, stats, variant):
    assert ("CLOCKS", variant) in codes(on_cards(tmp_path, **stats))
    assert "CLOCKS" not in {code for code, _ in codes(on_cards(tmp_path))}


def test_the_articles_figures_as_runs():
    found = {code for code, _ in codes(RESNET50) | codes(BERT_LARGE)}
    assert {"SUPERLINEAR", "BELOW_ANCHOR", "CLAIM", "GLOBAL_BATCH_CHANGED"} <= found


def test_no_warning_is_without_a_real_run():
    """The tests above, and what each of them raises; a new code has to be added here with its run."""
    here = Path(__file__).read_text()
    assert [code for code in CODES if f'"{code}"' not in here.replace("CODES", "")] == []
    assert Claim("ddp", "speedup", 8.1, "the article") in RESNET50.claims
