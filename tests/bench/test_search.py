"""The largest batch: the search against devices whose memory is simulated, and batches that are made larger."""

from collections import UserDict, namedtuple
from dataclasses import replace

import pytest
import torch

from benchmarks import engine
from benchmarks.engine import benchmark
from benchmarks.forms import Request
from benchmarks.launch import Measuring, RunFailed
from benchmarks.page import to_html
from benchmarks.results import Attempt, dump, load
from benchmarks.search import CLOSE, MOST_TIMES, MOST_TRIES, find_largest, growth_on_cpu, is_out_of_memory
from benchmarks.show import to_markdown, to_text

from .conftest import MLP
from .machines import FOUR, NONE
from .test_engine import PROGRAM, document

GB = 10**9


def card(total, fixed=0.0, per_sample=0.085, broken=None):
    """A device of `total` GB on which a sample takes `per_sample` GB: try(batch) as a start would answer."""
    asked = []

    def attempt(batch):
        asked.append(batch)
        used = fixed + batch * per_sample
        if batch == broken:
            return Attempt(batch, "failed", error="RuntimeError: shape mismatch")
        if used > total:
            return Attempt(batch, "out-of-memory", error="OutOfMemoryError: CUDA out of memory")
        return Attempt(batch, "fits", 1000.0 * batch / (batch + 50), int(used * GB))

    attempt.asked = asked
    return attempt


@pytest.mark.parametrize("most, own", [(896, 512), (896, 64), (100, 64), (7, 2), (64, 64), (513, 256), (3, 64), (1, 8)])
def test_the_largest_batch_is_bracketed_within_a_sixteenth(most, own):
    attempt = card(most * 0.085 + 0.04)
    found = find_largest(attempt, own)
    assert found.per_device_batch <= most < found.too_large
    assert found.too_large - found.per_device_batch <= max(1, found.per_device_batch // CLOSE)
    assert len(set(attempt.asked)) == len(attempt.asked) <= MOST_TRIES
    best = next(a for a in found.attempts if a.per_device_batch == found.per_device_batch)
    assert (best.outcome, found.samples_per_s) == ("fits", best.samples_per_s)


def test_memory_per_sample_is_the_growth_between_batches_that_fit():
    assert find_largest(card(80, fixed=5), 64).bytes_per_sample == pytest.approx(0.085 * GB, rel=0.001)


def test_a_card_that_holds_not_even_one_sample():
    found = find_largest(card(1, fixed=2), 4)
    assert (found.per_device_batch, found.too_large) == (None, 1)
    assert "not even 1 sample per device" in found.told


def test_a_card_without_end_is_not_searched_for_ever():
    found = find_largest(card(1e9), 4)
    assert found.per_device_batch == 4 * MOST_TIMES
    assert found.too_large is None
    assert "larger ones were not tried" in found.told


def test_a_program_that_stands_no_other_batch_gives_no_bound():
    found = find_largest(card(80, broken=128), 64)
    assert found.per_device_batch is None
    assert "another reason than memory: RuntimeError: shape mismatch" in found.told


def test_a_cpu_tells_growth_and_no_largest_batch():
    found = growth_on_cpu(card(1e9), 8)
    assert found.per_device_batch is None
    assert [a.per_device_batch for a in found.attempts] == [8, 32]
    assert found.bytes_per_sample == pytest.approx(0.085 * GB, rel=0.001)
    assert "largest batch of a GPU cannot be told here" in found.told


@pytest.mark.parametrize(
    "text, is_memory",
    [
        ("OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", True),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", True),
        ("RuntimeError: [enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory", True),
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied", False),
        ("RuntimeError: Connection closed by peer", False),
    ],
)
def test_which_errors_are_a_want_of_memory(text, is_memory):
    assert is_out_of_memory(text) is is_memory


class Cards:
    """Stands in for `start` on four cards of 80 GB: DataParallel's main card keeps the optimizer and gathers outputs."""

    def __init__(self, own=512):
        self.own, self.rows = own, []

    def __call__(self, plan, measuring, copy, cwd, folder, arguments, watch):
        rows = plan.rows or self.own * (4 if plan.name == "dp" or plan.whole_batches else 1)
        self.rows.append((plan.name, plan.rows))
        each = rows / (plan.devices if plan.processes == 1 or plan.whole_batches else 1)
        used = 4 + each * 0.084 + (each * 0.03 + 2 if plan.name == "dp" else 0)
        if used > 80:
            raise RunFailed("OutOfMemoryError: CUDA out of memory, after 0 steps", out_of_memory=True)
        found = [document(r, plan.processes) for r in range(plan.processes)]
        for one in found:
            one["samples"] = [float(rows)] * 16
            one["windows"], one["step_ms"] = [1.0] * measuring.windows, [100.0] * 16
            one["wait"], one["boundary"] = [0.0] * 16, [False] * 16
            one["memory"][0]["reserved"] = int(used * GB)
        return found


@pytest.fixture
def request_of(tmp_path):
    program = tmp_path / "project" / "train.py"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    measuring = Measuring(2, 3, 2)
    return Request(program, "mgmigrate bench", rounds=1, measuring=measuring, profile_steps=0, max_batch=True)


def test_each_form_has_its_own_largest_batch_on_simulated_cards(request_of, monkeypatch):
    monkeypatch.setattr(engine, "start", Cards())
    report = benchmark(replace(request_of, gpus=FOUR.gpus), None, FOUR)
    found = {v.name: v.largest for v in report.variants}
    assert found["ddp"].per_device_batch == pytest.approx(76 / 0.084, rel=1 / CLOSE)  # 512 grows to about 900
    assert found["dp"].per_device_batch == pytest.approx(74 / 0.114, rel=1 / CLOSE)
    assert found["ddp"].samples_per_s > found["dp"].samples_per_s
    assert load(dump(report)) == report
    for text in (to_text(report), to_markdown(report), to_html(report)):
        assert "largest batch" in text.lower()
        assert f"{found['ddp'].per_device_batch}" in text


def test_a_form_that_does_not_fit_is_searched_downwards(request_of, monkeypatch):
    monkeypatch.setattr(engine, "start", Cards(own=700))
    report = benchmark(replace(request_of, gpus=FOUR.gpus), None, FOUR)
    dp = report.variant("dp")
    assert dp.status == "failed"
    assert "out of memory" in dp.error
    assert 600 < dp.largest.per_device_batch < 700


def test_ranks_that_read_whole_batches_get_the_batch_of_all_devices(request_of, monkeypatch):
    cards = Cards()
    monkeypatch.setattr(engine, "start", cards)
    (form,) = request_of.forms
    whole = replace(form, options=replace(form.options, sampling="call"))
    benchmark(replace(request_of, gpus=FOUR.gpus, forms=(whole,)), None, FOUR)
    asked = {name: rows for name, rows in cards.rows if rows}
    assert asked["ddp"] % 4 == 0
    assert asked["ddp"] > 512 * 4


def test_on_a_cpu_the_report_says_what_it_cannot_tell(request_of, monkeypatch):
    monkeypatch.setattr(engine, "start", Cards(own=8))
    report = benchmark(request_of, None, NONE)
    text = " ".join(to_text(report).split())
    assert "on a CPU there is no device memory to fill" in text
    assert report.variant("ddp").largest.per_device_batch is None


MEMORY = """
import torch
class Card(torch.nn.Linear):
    def forward(self, x):
        if x.shape[0] > 37:
            raise torch.OutOfMemoryError(f"CUDA out of memory: {x.shape[0]} samples")
        return super().forward(x)
"""


@pytest.mark.parametrize("rows", [1, 20, 37, 38])
def test_the_program_gets_as_many_samples_as_are_tried(forked, rows):
    text = MEMORY + MLP.replace("SAMPLES", "400").replace("nn.Linear(16, 32)", "Card(16, 32)")
    ran = forked(text, rows=rows)
    if rows > 37:
        assert is_out_of_memory(ran.error["message"])
        assert "38 samples" in ran.error["message"]
    else:
        assert ran.error is None
        assert ran.documents[0]["samples"] == [float(rows)] * 6


def test_batches_of_every_shape_are_repeated():
    from benchmarks.inside.batches import repeat_rows

    Pair = namedtuple("Pair", "x y")
    x = torch.arange(3.0)
    made = repeat_rows([x, {"ids": x.view(3, 1), "scale": torch.ones(2)}, ("a", "b", "c"), Pair(x, 7)], 3, 7)
    assert made[0].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert made[1]["ids"].shape == (7, 1)
    assert made[1]["scale"].shape == (2,)
    assert made[2] == ("a", "b", "c", "a", "b", "c", "a")
    assert (len(made[3].x), made[3].y) == (7, 7)
    encoding = repeat_rows(UserDict(ids=x), 3, 2)
    assert isinstance(encoding, UserDict)
    assert encoding["ids"].tolist() == [0, 1]
    boxes = [torch.ones(2, 4), torch.ones(5, 4), torch.ones(1, 4)]  # of each sample its own
    assert [len(b) for b in repeat_rows([x, boxes], 3, 5)[1]] == [2, 5, 1, 2, 5]
