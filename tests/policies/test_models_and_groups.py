"""Policies about the model and the processes: unused parameters, layouts, batch norm, seeds, evaluation, loss, time limits."""

import pytest

from codemods.options import Options
from migrator.convert.pipeline import convert_program
from migrator.load.source import Source
from tests.policies.conftest import WORLDS
from tests.rules.tools import check_noop, check_note, check_question, check_rewrite, convert, training

PROGRAM = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SHOWN = []


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Conv2d(1, 2, 3)
        self.norm = nn.BatchNorm2d(2)
        self.head = nn.Linear(2, 2)
        self.unused = nn.Linear(2, 2)

    def forward(self, x):
        SHOWN.append([x.is_contiguous(memory_format=torch.channels_last), torch.rand(()).item()])
        return self.head(self.norm(self.features(x)).mean(dim=(2, 3)))


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(32, 1, 6, 6), torch.randint(2, (32,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = Net()
    model = nn.DataParallel(model)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
    for epoch in range(2):
        for inputs, targets in loader:
            loss = criterion(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""
USED = PROGRAM.replace(
    "self.norm(self.features(x)).mean(dim=(2, 3))", "self.unused(self.norm(self.features(x)).mean(dim=(2, 3)))"
)


@pytest.mark.parametrize("target", ["ddp", "accelerate"])
def test_a_policy_for_the_model_outlives_the_if_around_its_wrap(target: str):
    text = USED.replace("    model = nn.Data", "    if torch.cuda.device_count() > 1:\n        model = nn.Data")
    (change,) = convert(text, target=target, sync_bn=True, inline_helpers=True).changes
    assert "\n    model = sync_batch_norm(model)\n" in change.after and "device_count() > 1" not in change.after


@pytest.mark.parametrize("world", [2, 4])
def test_a_model_with_an_unused_head_trains(run, world):
    ran = run(PROGRAM, world, find_unused=True)
    assert ran.conversion.way == "distributed"
    assert len(ran.ranks[0]["rates"]) == 8
    assert all(rank["sums"] == ran.ranks[0]["sums"] for rank in ran.ranks)


def test_without_the_flag_unused_parameters_get_zeros(run):
    ran = run(PROGRAM, 2)
    assert ran.conversion.way == "distributed"
    assert len(ran.ranks[0]["rates"]) == 8
    (wrapped,) = [d for d in ran.conversion.diagnostics if d.rule == "MG301"]
    assert "self.unused" in wrapped.message


def test_with_the_flag_their_gradients_stay_away():
    assert "zeros_for_unused" not in convert(PROGRAM, find_unused=True).changes[0].after


@pytest.mark.parametrize("world", WORLDS)
def test_the_flag_is_not_needed_where_the_call_is_split(run, world):
    ran = run(PROGRAM, world, find_unused=True, sampling="call")
    assert len(ran.ranks[0]["rates"]) == 8
    check_note(PROGRAM, "is not needed here", "MG323", find_unused=True, sampling="call")


@pytest.mark.parametrize("sampling", ["distributed", "call"])
@pytest.mark.parametrize("world", WORLDS)
def test_images_come_channels_last(run, sampling, world):
    text = USED.replace("nn.Conv2d(1, 2, 3)", "nn.Conv2d(3, 2, 3)").replace("32, 1, 6, 6", "32, 3, 6, 6")
    ran = run(text, world, channels_last=True, sampling=sampling)
    assert all(last for last, _ in ran.ranks[0]["shown"])
    assert ran.ranks[0]["sums"] == ran.ranks[1]["sums"]
    assert ran.conversion.policies == ()


def test_a_model_without_convolutions_stays():
    conversion = check_note(training(""), "no 2-D convolution was found", "MG322", channels_last=True)
    assert "channels_last" not in conversion.changes[0].after


def test_three_dimensional_convolutions_are_a_question():
    text = training("").replace("nn.Linear(4, 2)", "nn.Conv3d(4, 2, 1)")
    check_question(text, "3-D convolutions", "MG322", channels_last=True)


def test_models_without_a_name_go_through_both_helpers():
    text = training("").replace("nn.Linear(4, 2)", "nn.Conv2d(4, 2, 1)")
    check_rewrite(
        text,
        "model = wrap_model(use_channels_last(sync_batch_norm(nn.Conv2d(4, 2, 1))))",
        "MG321",
        sync_bn=True,
        channels_last=True,
    )


def test_named_models_are_changed_above_the_wrap():
    check_rewrite(
        USED,
        """
        model = sync_batch_norm(model)
        model = use_channels_last(model)
        model = wrap_model(model)
        """,
        "MG322",
        sync_bn=True,
        channels_last=True,
    )


@pytest.mark.parametrize("world", WORLDS)
def test_synchronised_batch_norm_leaves_a_cpu_alone(run, world):
    ran = run(USED, world, sync_bn=True)
    assert ran.conversion.policies == ("--sync-bn",)


VENDORED = PROGRAM.replace(
    "from torch import nn\n",
    "from torch import nn\nfrom sync_batchnorm import SynchronizedBatchNorm2d, patch_replication_callback\n",
)
VENDORED = VENDORED.replace("nn.BatchNorm2d(2)", "SynchronizedBatchNorm2d(2)").replace(
    "    criterion =", "    patch_replication_callback(model)\n    criterion ="
)


def test_vendored_synchronised_layers_become_torchs():
    conversion = convert(VENDORED, sync_bn=True)
    after = conversion.changes[0].after
    assert "self.norm = nn.BatchNorm2d(2)" in after
    assert "patch_replication_callback(" not in after
    assert "sync_batch_norm(model)" in after


def test_a_wrapper_that_ties_replicas_is_an_ordinary_one_with_torchs_layers():
    text = VENDORED.replace(
        "class Net(",
        "class TiedDataParallel(nn.DataParallel):\n"
        "    def replicate(self, module, device_ids):\n"
        "        replicas = super().replicate(module, device_ids)\n"
        "        for layer in module.modules():\n"
        "            layer.ready(replicas)\n"
        "        return replicas\n\n\nclass Net(",
    ).replace("nn.DataParallel(model)", "TiedDataParallel(model)")
    check_question(text, "ties the replicas to each other", "MG302")
    conversion = convert(text, sync_bn=True)
    assert "SplitDataParallel(model)" in conversion.changes[0].after
    assert not conversion.questions


def test_vendored_synchronised_layers_are_reported_without_the_flag():
    check_question(VENDORED, "run again with --sync-bn", "MG321")


def test_plain_batch_norm_is_left_alone():
    check_noop(PROGRAM, "MG321")


@pytest.mark.parametrize("world", WORLDS)
def test_processes_draw_alike_where_asked_for(run, world):
    own = run(USED, world)
    assert [r for _, r in own.ranks[0]["shown"]] != [r for _, r in own.ranks[1]["shown"]]
    same = run(USED, world, seed_policy="same")
    assert [r for _, r in same.ranks[0]["shown"]] == [r for _, r in same.ranks[1]["shown"]]


def test_alike_draws_change_nothing_where_the_call_is_split():
    check_note(USED, "dropout is each process's own", "MG203", seed_policy="same", sampling="call")


@pytest.mark.parametrize("world", WORLDS)
def test_a_time_limit_is_given_where_the_group_is_joined(run, world):
    text = USED.replace("    torch.manual_seed(0)\n", "    torch.manual_seed(0)\n    SHOWN.append(limit())\n")
    text = text.replace(
        "def main():\n",
        "def limit():\n"
        "    import torch.distributed as group\n"
        "    backend = group.distributed_c10d._get_default_group()._get_backend(torch.device('cpu'))\n"
        "    return backend.options._timeout.total_seconds()\n\n\n"
        "def main():\n",
    )
    ran = run(text, world, pg_timeout=77)
    assert ran.ranks[0]["shown"][0] == 77
    assert "setup_distributed(timeout=timedelta(seconds=77))" in ran.conversion.changes[0].after


def test_without_a_time_limit_torchs_own_holds():
    assert "setup_distributed()\n" in convert(PROGRAM).changes[0].after


@pytest.mark.parametrize("world", WORLDS)
def test_a_loss_over_the_whole_batch_is_asked_for(run, world):
    ran = run(USED, world, loss="global")
    assert ran.conversion.way == "distributed" and "whole_batch(model(" in ran.conversion.changes[0].after


@pytest.mark.parametrize("world", WORLDS)
def test_a_loss_of_ones_own_is_vouched_for(run, world):
    text = USED.replace(
        "def main():",
        "class Loss(nn.Module):\n"
        "    def forward(self, output, targets):\n"
        "        return nn.functional.cross_entropy(output, targets)\n\n\ndef main():",
    ).replace("nn.CrossEntropyLoss()", "Loss()")
    assert "whole_batch(model(" in run(text, world).conversion.changes[0].after
    ran = run(text, world, loss="local")
    assert ran.conversion.way == "distributed" and "whole_batch" not in ran.conversion.changes[0].after
    assert ran.conversion.policies == ("--loss local",)


EVALUATED = training(
    """
    model.eval()
    right = 0
    with torch.no_grad():
        for inputs, targets in test_loader:
            right += (model(inputs).argmax(1) == targets).sum().item()
    model.train()
    """
).replace("    model =", "    test_loader = DataLoader(data, batch_size=16)\n    model =")


def test_evaluation_is_replicated_where_asked_for():
    assert "own_share(" in convert(EVALUATED).changes[0].after
    conversion = check_note(EVALUATED, "as asked", "MG702", evaluation="replicate")
    assert "own_share(" not in conversion.changes[0].after


MEASURED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SHOWN = []


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 4), torch.randint(2, (64,)))
    test_data = TensorDataset(torch.randn(19, 4), torch.randint(2, (19,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    test_loader = DataLoader(test_data, batch_size=4)
    model = nn.DataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for inputs, targets in loader:
            loss = nn.functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        right = total = 0
        with torch.no_grad():
            for inputs, targets in test_loader:
                right += (model(inputs).argmax(1) == targets).sum().item()
                total += targets.size(0)
        SHOWN.append(right / total)


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("evaluation", "shared"), [("auto", True), ("shard", True), ("replicate", False)])
def test_every_process_knows_the_same_accuracy_of_all_samples(run, world, evaluation, shared):
    ran = run(MEASURED, world, evaluation=evaluation)
    assert ("own_share(" in ran.conversion.changes[0].after) is shared
    figures = ran.ranks[0]["shown"]
    assert all((figure * 19) == pytest.approx(round(figure * 19)) for figure in figures), "of 19 samples, each once"
    assert all(rank["shown"] == figures for rank in ran.ranks)


def test_evaluation_that_cannot_be_shared_is_a_question_where_sharing_is_asked_for():
    text = EVALUATED.replace("DataLoader(data, batch_size=16)\n", "DataLoader(data, batch_size=16, shuffle=True)\n")
    check_question(text, "cannot be shared out", "MG702", evaluation="shard")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({}, "torchrun --standalone --nproc_per_node=gpu -- train.py"),
        ({"nproc": 4}, "torchrun --standalone --nproc_per_node=4 -- train.py"),
        ({"master_port": 29600}, "torchrun --nproc_per_node=gpu --master_port=29600 -- train.py"),
        (
            {"nodes": 2, "nproc": 8},
            "torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=HOST:29500 --nproc_per_node=8 -- train.py",
        ),
    ],
)
def test_the_launch_line(tmp_path, monkeypatch, options, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM)
    from pathlib import Path

    conversion = convert_program(Path("train.py"), Options(**options), Source("train.py", PROGRAM))
    assert conversion.launch == line
