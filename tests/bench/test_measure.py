"""The hooks inside a measured program: what they count, what they leave out, and how the program ends."""

import pytest

from benchmarks.aggregate import make_communication, make_run, make_work

from .conftest import MLP

LONG, SHORT = MLP.replace("SAMPLES", "400"), MLP.replace("SAMPLES", "40")

DDP = """
import os, torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo", init_method=os.environ["STORE"], rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
data = TensorDataset(torch.randn(400, 16), torch.randint(4, (400,)))
loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data), drop_last=True)
model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 4)))
optimizer = torch.optim.Adam(model.parameters())
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_windows_steps_and_samples_of_an_unmodified_program(forked):
    ran = forked(LONG)
    assert ran.codes == [0]
    assert "done" not in ran.log  # it was ended after the last window
    (document,) = ran.documents
    assert document["finished"]
    assert document["count"] == 2 + 3 * 2
    assert len(document["windows"]) == 2
    assert len(document["step_ms"]) == 6
    assert document["samples"] == [8.0] * 6
    run = make_run(ran.documents, 0, 3, False, 1.0)
    work = make_work(ran.documents, run, 1)
    assert (work.global_batch, work.loader_workers, work.precision, work.optimizer) == (8, 0, "float32", "SGD")
    assert [w.samples for w in run.windows] == [24.0, 24.0]
    assert sum(w.seconds for w in run.windows) == pytest.approx(sum(document["step_ms"]) / 1000, rel=0.2)
    assert 0 <= run.hook_share < 0.5
    assert run.memory[0].used > 1 << 20


def test_evaluation_and_the_end_of_an_epoch_are_left_out(forked):
    ran = forked(SHORT, warmup=2, steps=3, windows=2)  # five steps an epoch
    (document,) = ran.documents
    assert document["boundary"] == [False, False, False, True, False, False]
    run = make_run(ran.documents, 0, 3, False, 1.0)
    assert run.left_out == 1
    assert [w.steps for w in run.windows] == [3, 2]
    assert [w.samples for w in run.windows] == [24.0, 16.0]


def test_a_program_that_ends_early_says_how_far_it_came(forked):
    ran = forked(SHORT, warmup=2, steps=50)
    (document,) = ran.documents
    assert ran.codes == [0]
    assert not document["finished"]
    assert document["count"] == 10
    assert document["windows"] == []
    assert "done" in ran.log


def test_an_error_names_its_place(forked):
    ran = forked("import torch\nraise RuntimeError('CUDA out of memory')\n")
    assert ran.error["message"] == "RuntimeError: CUDA out of memory (train.py:2)"
    assert ran.codes == [1]


def test_the_program_s_own_benchmarks_folder_and_arguments_are_its_own(forked):
    text = (
        "import sys\nimport benchmarks, measure, run\nassert benchmarks.MINE and measure.MINE and run.MINE\n"
        "assert sys.argv[1:] == ['--flag'] and __name__ == '__main__'\n" + LONG
    )
    files = {"benchmarks/__init__.py": "MINE = 1\n", "measure.py": "MINE = 1\n", "run.py": "MINE = 1\n"}
    ran = forked(text, files=files)
    assert ran.error is None
    assert ran.documents[0]["finished"]


def test_spawned_loader_workers_are_ended_with_the_program(forked):
    ran = forked(LONG.replace("drop_last=True", "drop_last=True, num_workers=2, persistent_workers=True"))
    assert ran.documents[0]["workers"] == 2
    assert ran.documents[0]["finished"]


def test_the_same_number_of_workers_on_all_sides(forked):
    ran = forked(LONG.replace("drop_last=True", "drop_last=True, num_workers=4, prefetch_factor=3"), workers=0)
    assert ran.error is None
    assert ran.documents[0]["workers"] == 0


def test_autocast_is_seen(forked):
    text = LONG.replace(
        "        loss = nn.functional.cross_entropy(model(x), y)",
        "        with torch.autocast('cpu', torch.bfloat16):\n            loss = nn.functional.cross_entropy(model(x), y)",
    )
    ran = forked(text)
    run = make_run(ran.documents, 0, 3, False, None)
    assert make_work(ran.documents, run, 1).precision == "bfloat16"


def test_two_optimizers_count_the_steps_of_the_first(forked):
    text = LONG.replace("optimizer.step()", "optimizer.step(); other.step()").replace(
        "for epoch", "other = torch.optim.Adam(model.parameters())\nfor epoch"
    )
    ran = forked(text)
    assert ran.documents[0]["count"] == 8
    assert ran.documents[0]["work"]["optimizer"] == "SGD"


def test_a_program_without_a_loader_has_no_samples(forked):
    text = """
    import torch
    p = torch.nn.Parameter(torch.ones(3))
    o = torch.optim.SGD([p], 0.1)
    for _ in range(100):
        o.zero_grad(); (p * 2).sum().backward(); o.step()
    """
    ran = forked(text)
    run = make_run(ran.documents, 0, 3, False, None)
    assert [w.samples for w in run.windows] == [None, None]


def test_two_ranks_meet_at_the_end_and_are_profiled(forked):
    ran = forked(DDP, ranks=2, profile_steps=2)
    assert ran.codes == [0, 0]
    assert [d["rank"] for d in ran.documents] == [0, 1]
    run = make_run(ran.documents, 0, 3, False, None)
    assert make_work(ran.documents, run, 2).global_batch == 8  # the sum of both ranks
    assert (
        make_work(ran.documents, make_run(ran.documents, 0, 3, True, None), 2).global_batch == 4
    )  # way 3: each reads all
    slowest = [max(a, b) for a, b in zip(*(d["step_ms"] for d in ran.documents), strict=True)]
    assert run.step_ms == pytest.approx(slowest)
    communication, why = make_communication(ran.documents)
    assert why == ""
    assert communication.steps == 2
    assert communication.total_ms == pytest.approx(communication.exposed_ms + communication.overlapped_ms)
    assert 0 < communication.gradient_sync_ms <= communication.total_ms < communication.step_ms


def test_a_program_that_profiles_itself_keeps_its_profiler(forked):
    ran = forked(
        "import torch\np = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]); p.start()\n"
        + LONG,
        profile_steps=2,
    )
    (document,) = ran.documents
    assert document["finished"]
    assert document["trace"] or document["profile_error"]


def test_the_harness_takes_little_of_a_step(forked):
    """A step of 5 ms: the hooks' own time is at most 2 % of it."""
    ran = forked(
        LONG.replace("optimizer.step()", "time.sleep(0.005); optimizer.step()").replace(
            "import torch\n", "import torch, time\n", 1
        ),
        steps=10,
        windows=2,
    )
    assert ran.documents[0]["hook_share"] <= 0.02


def test_a_module_is_run_as_python_m_runs_it(forked, tmp_path):
    text = "from . import mine\nassert mine.HERE and __name__ == '__main__' and __package__ == 'pkg'\n" + LONG
    files = {"pkg/__init__.py": "", "pkg/mine.py": "HERE = 1\n", "pkg/train.py": text}
    ran = forked("raise SystemExit(9)\n", files=files, module="pkg.train", path=str(tmp_path / "project"))
    assert ran.error is None
    assert ran.documents[0]["finished"]


def test_a_prelude_is_run_first(forked):
    ran = forked("import builtins\nassert builtins.SHIM == 3\n" + LONG, prelude="import builtins\nbuiltins.SHIM = 3\n")
    assert ran.error is None
    assert ran.documents[0]["finished"]


def test_torchvision_s_data_is_replaced_where_it_is_asked_for(forked):
    text = """
    import torch, torchvision
    from torchvision import transforms
    data = torchvision.datasets.CIFAR10("none", download=True, transform=transforms.ToTensor())
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    p = torch.nn.Parameter(torch.ones(3, 1, 1))
    o = torch.optim.SGD([p], 0.1)
    for x, _ in loader:
        o.zero_grad(); (x * p).mean().backward(); o.step()
    """
    ran = forked(text, fake_data=100)
    assert ran.error is None
    assert ran.documents[0]["samples"] == [4.0] * 6


INSISTS = LONG.replace("model(x), y)", "model(x.cuda()), y.cuda())").replace(
    "nn.Linear(32, 4)))", "nn.Linear(32, 4)).cuda(), device_ids=[0, 1])"
)


def test_a_program_that_insists_on_a_gpu_runs_on_the_cpu_in_its_place(forked):
    refused = forked(INSISTS, variant="single")
    assert "NVIDIA" in refused.error["message"] or "CUDA" in refused.error["message"]
    (refused.folder / "error.0.json").unlink()
    ran = forked(INSISTS, variant="single", pretend_cuda=True)
    assert ran.error is None, ran.error
    assert ran.documents[0]["finished"]
    assert ran.documents[0]["work"]["device"] == "cpu"


def test_ranks_that_insist_on_gpus_meet_over_gloo(forked):
    text = DDP.replace('"gloo"', '"nccl"').replace(
        "nn.Linear(256, 4))", "nn.Linear(256, 4)).cuda(), device_ids=[dist.get_rank()]"
    )
    text = text.replace("model = ", "torch.cuda.set_device(dist.get_rank())\nmodel = ").replace(
        "model(x), y", "model(x.cuda()), y.cuda()"
    )
    ran = forked(text, ranks=2, pretend_cuda=True)
    assert ran.error is None, ran.error
    assert [d["finished"] for d in ran.documents] == [True, True]


def test_the_launcher_can_read_how_far_the_program_is(forked):
    ran = forked(LONG)
    assert int((ran.folder / "steps").read_text()) == 2 + 3 * 2
