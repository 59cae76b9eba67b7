"""The three ways of sharing a batch, and programs that only evaluate: which is taken, and what the result looks like."""

from pathlib import Path

import pytest

from codemods.options import Options
from codemods.registry import load_rules
from migrator.convert.conversion import Conversion
from migrator.convert.pipeline import convert_program
from migrator.facts.python.syntax import Module
from migrator.load.source import Source

PLAIN = """
import torch
import torch.nn as nn
from torch.utils.data import DataLoader{extra}
from data import train_set, test_set
from net import Net


def main():
    loader = DataLoader(train_set, batch_size=64, {order}, num_workers=4)
    test_loader = DataLoader(test_set, batch_size=100)
    model = Net().cuda()
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)
    criterion = {criterion}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        for images, labels in loader:
            images, labels = images.cuda(), labels.cuda()
            loss = criterion(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        correct = 0
        with torch.no_grad():
            for images, labels in test_loader:
                correct += (model(images.cuda()).argmax(1) == labels.cuda()).sum().item()
        print(epoch, correct)
        torch.save(model.state_dict(), "net.pt")


if __name__ == "__main__":
    main()
"""


def plain(order: str = "shuffle=True", criterion: str = "nn.CrossEntropyLoss()", extra: str = "") -> str:
    return PLAIN.format(order=order, criterion=criterion, extra=extra)


def convert(folder: Path, text: str, **options: object) -> Conversion:
    entry = folder / "train.py"
    entry.write_text(text)
    return convert_program(entry, Options(**options))  # type: ignore[arg-type]


def result(conversion: Conversion) -> str:
    return next(change.after for change in conversion.changes if change.path.endswith("train.py"))


def test_a_plain_program_takes_a_distributed_sampler(tmp_path: Path) -> None:
    conversion = convert(tmp_path, plain())
    text = result(conversion)
    assert conversion.way == "distributed" and conversion.exit_code == 0
    assert "train_sampler = DistributedSampler(train_set, seed=torch.initial_seed())" in text
    assert "batch_size=local_batch(64), sampler=train_sampler, num_workers=math.ceil(4 / dist.get_world_size())" in text
    assert "        loader.sampler.set_epoch(epoch)\n        for images, labels in loader:" in text
    assert "    model = wrap_model(model)\n" in text and "device_count" not in text
    assert "DataLoader(own_share(test_set), batch_size=math.ceil(100 / dist.get_world_size()))" in text
    assert "correct += (model.module(images.cuda())" in text
    assert "correct = sum_over_ranks(correct)" in text


def test_the_programs_own_sampler_stays_and_its_batches_are_split(tmp_path: Path) -> None:
    order, extra = "sampler=WeightedRandomSampler(torch.ones(9), 9)", ", WeightedRandomSampler"
    conversion = convert(tmp_path, plain(order, extra=extra))
    assert conversion.way == "batch"
    assert (
        "loader = split_batches(DataLoader(train_set, batch_size=64, "
        "sampler=WeightedRandomSampler(torch.ones(9), 9), num_workers=4))" in result(conversion)
    )


@pytest.mark.parametrize(
    "criterion",
    [
        "nn.CrossEntropyLoss(weight=torch.ones(10))",
        "nn.CrossEntropyLoss(ignore_index=255)",
        'nn.CrossEntropyLoss(reduction="sum")',
        "nn.CrossEntropyLoss(size_average=False)",
        "lambda output, target: (output.sum(1) - target).sum()",
        "contrastive",
    ],
)
def test_a_loss_that_is_no_plain_mean_is_computed_over_the_whole_batch(tmp_path: Path, criterion: str) -> None:
    conversion = convert(tmp_path, plain(criterion=criterion))
    text = result(conversion)
    assert conversion.way == "distributed" and conversion.reason.endswith("the loss sees the whole batch")
    assert "labels = whole_batch(labels)" in text and "whole_batch(model(images))" in text
    assert "DistributedSampler(train_set" in text and "SplitDataParallel" not in text


def test_the_way_can_be_asked_for_and_an_inexact_one_is_not_given(tmp_path: Path) -> None:
    assert convert(tmp_path, plain(), sampling="call").way == "call"
    assert convert(tmp_path, plain(), sampling="batch").way == "batch"
    drawn = plain().replace("    optimizer = ", "    model(torch.rand(1)).sum().backward()\n    optimizer = ", 1)
    assert convert(tmp_path, drawn, sampling="distributed").way == "call"


def test_the_loss_can_be_asked_to_see_the_whole_batch_or_a_share(tmp_path: Path) -> None:
    assert "whole_batch(model(" in result(convert(tmp_path, plain(), loss="global"))
    weighted = plain(criterion="nn.CrossEntropyLoss(weight=torch.ones(10))")
    assert "whole_batch" not in result(convert(tmp_path, weighted, loss="local"))


def test_a_program_that_only_evaluates_loses_its_wrapper(tmp_path: Path) -> None:
    conversion = convert(
        tmp_path,
        """
import torch
import torch.nn as nn
from net import Net

model = Net()
model = nn.DataParallel(model)
model.load_state_dict(torch.load("best.pth", map_location="cpu"))
print(model.module.classes, model(torch.ones(1, 3)))
""",
    )
    text = result(conversion)
    assert "DataParallel" not in text and "torch.distributed" not in text
    assert (
        '{key.removeprefix("module."): value for key, value in torch.load("best.pth", map_location="cpu").items()}'
        in text
    )
    assert "print(model.classes, model(torch.ones(1, 3)))" in text
    assert conversion.launch.startswith("python ")


def test_every_rule_has_an_id_and_a_name_of_its_own() -> None:
    rules = load_rules()
    assert len({rule.id for rule in rules}) == len(rules)
    assert len({rule.name for rule in rules}) == len(rules)
    assert all(rule.summary.endswith(".") for rule in rules)


LOOP = """
import torch
import torch.nn as nn
import numpy as np
from torch.utils.data import DataLoader
from data import train_set
from net import Net, Mask


def build(batch_size):
    {build}
    loader = DataLoader(train_set, batch_size=batch_size, shuffle=True)
    return loader


def main(args):
    loader = build(args.batch_size)
    model = nn.DataParallel(Net()).cuda()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state, running = None, 0.0
    for epoch in range(10):
        {epoch}
        for images, labels in loader:
            {first}
            loss = criterion(model({inputs}), labels)
            optimizer.zero_grad()
            loss.backward()
            {grads}
            optimizer.step()
            running += loss.item()
            {last}
        print(epoch)


main(Net.arguments())
"""


@pytest.mark.parametrize(
    "changes, way",
    [
        pytest.param({}, "distributed", id="the plain loop"),
        pytest.param({"last": "if running > 100: break"}, "distributed", id="a running figure decides"),
        pytest.param(
            {"inputs": "images, state", "last": "state = images"}, "call", id="a value is kept for the next step"
        ),
        pytest.param(
            {"first": "state = images", "inputs": "images, state"}, "distributed", id="the same within a step"
        ),
        pytest.param(
            {"build": "mask = Mask(batch_size)"}, "call", id="the batch size shapes something in another function"
        ),
        pytest.param({"build": "print('batches of', batch_size)"}, "distributed", id="the batch size is only printed"),
        pytest.param({"epoch": "train_set.keep(np.random.permutation(9))"}, "call", id="an epoch draws its subset"),
        pytest.param(
            {"grads": "for p in model.parameters(): p.grad += torch.randn_like(p.grad)"},
            "call",
            id="noise in gradients",
        ),
    ],
)
def test_what_a_loop_may_do_for_its_data_to_be_shared(tmp_path: Path, changes: dict[str, str], way: str) -> None:
    parts = {"build": "pass", "epoch": "pass", "first": "pass", "inputs": "images", "grads": "pass", "last": "pass"}
    assert convert(tmp_path, LOOP.format(**(parts | changes))).way == way


def test_without_one_converted_wrap_nothing_else_is_changed(tmp_path: Path) -> None:
    conversion = convert(
        tmp_path,
        """
import torch, torch.nn as nn
from net import Net

class Scattered(nn.DataParallel):
    def gather(self, outputs, output_device):
        return outputs

model = Scattered(Net()).cuda()
model(torch.ones(4)).backward()
torch.save(model.state_dict(), "net.pt")
""",
    )
    assert not conversion.changes and conversion.exit_code == 3


def test_a_program_that_is_run_as_a_module_imports_its_helpers_from_its_package(tmp_path: Path) -> None:
    package = tmp_path / "speech"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "net.py").write_text("class Net: pass\n")
    entry = package / "train.py"
    entry.write_text(
        "import torch\nimport torch.nn as nn\nfrom .net import Net\n\n"
        "if __name__ == '__main__':\n    model = nn.DataParallel(Net()).cuda()\n    model(torch.ones(2)).backward()\n"
    )
    conversion = convert_program(entry, Options())
    assert conversion.launch == "torchrun --standalone --nproc_per_node=gpu -m speech.train"
    assert "from speech.ddp_utils import SplitDataParallel, setup_distributed" in result(conversion)


def test_an_import_under_a_condition_is_not_taken_for_one_that_is_always_made(tmp_path: Path) -> None:
    module = Module(Source("train.py", "import os\nif __package__ is None:\n    import sys\n"), "train")
    assert module.always_imports("os") and not module.always_imports("sys")


def test_an_evaluation_that_reports_while_it_runs_stays_whole(tmp_path: Path) -> None:
    shown = plain().replace(
        "                correct +=", "                print(correct)\n                correct +=", 1
    )
    text = result(convert(tmp_path, shown))
    assert "own_share" not in text and "model.module(" not in text


def test_a_sampler_that_is_always_none_gives_its_place_to_the_distributed_one(tmp_path: Path) -> None:
    text = plain("shuffle=(own is None), sampler=own").replace("    loader = ", "    own = None\n    loader = ", 1)
    conversion = convert(tmp_path, text)
    assert conversion.way == "distributed"
    after = result(conversion)
    assert "    own = DistributedSampler(train_set, seed=torch.initial_seed())\n    loader = " in after
    assert "batch_size=local_batch(64), sampler=own, num_workers=" in after


def test_a_named_data_set_s_sampler_stands_where_none_stood_and_lines_stay_apart(tmp_path: Path) -> None:
    before = """\
    data = TensorDataset(torch.randn(64, 3), torch.zeros(64).long())
    own = None
    loader = DataLoader(
        data, batch_size=64, shuffle=(own is None),
        num_workers=2, sampler=own)
"""
    lines = plain().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if line.startswith("    loader = "))
    after = result(convert(tmp_path, "".join([*lines[:at], before, *lines[at + 1 :]])))
    assert (
        """\
    own = DistributedSampler(data, seed=torch.initial_seed())
    loader = DataLoader(
        data, batch_size=local_batch(64),
        num_workers=math.ceil(2 / dist.get_world_size()), sampler=own)
"""
        in after
    )


def test_a_sum_that_the_program_indexes_keeps_its_one_element(tmp_path: Path) -> None:
    helper = (
        "def accuracy(output, target, topk=(1,)):\n"
        "    correct = output.topk(max(topk), 1)[1].t().eq(target)\n"
        "    return [correct[:k].view(-1).float().sum(0) for k in topk]\n\n\n"
    )
    text = plain().replace("def main", helper + "def main", 1)
    used = text.replace(
        "            optimizer.zero_grad()",
        "            first, third = accuracy(model.out, labels, (1, 3))\n            print(first[0])\n"
        "            optimizer.zero_grad()",
    )
    assert "correct[:k].reshape(-1).float().sum(0, keepdim=True)" in result(convert(tmp_path, used))
    assert "correct[:k].reshape(-1).float().sum(0) for" in result(convert(tmp_path, text))


SEED = "import random\nimport numpy as np\n"


@pytest.mark.parametrize(
    "seeding, alike",
    [
        pytest.param("torch.manual_seed(0)", True, id="a constant"),
        pytest.param("torch.manual_seed(args.seed)", True, id="an option"),
        pytest.param("if args.seed: torch.manual_seed(args.seed)", False, id="only when an option is given"),
        pytest.param(
            "args.seed = random.randint(1, 9); random.seed(args.seed); torch.manual_seed(args.seed)", False, id="drawn"
        ),
        pytest.param("torch.manual_seed(np.random.get_state()[1][0])", False, id="another generator's state"),
        pytest.param("", False, id="no seed"),
    ],
)
def test_random_numbers_are_shared_unless_the_program_always_seeds_them_alike(
    tmp_path: Path, seeding: str, alike: bool
) -> None:
    text = SEED + plain().replace("def main():\n", f"def main(args=Options()):\n    {seeding}\n", 1)
    text = text.replace("from net import Net\n", "from net import Net, Options\n")
    changed = result(convert(tmp_path, text))
    assert ("share_random_numbers()" not in changed) is alike


def test_what_builds_on_a_fix_that_a_comment_refuses_goes_with_it(tmp_path: Path) -> None:
    conversion = convert(
        tmp_path, plain("shuffle=True").replace("num_workers=4)", "num_workers=4)  # mgmigrate: ignore[MG201]")
    )
    assert "set_epoch" not in result(conversion) and "DistributedSampler(" not in result(conversion)
    told = {d.rule: d.message for d in conversion.diagnostics if d.level == "note"}
    assert "MG201" not in told
    assert "left out with MG201@train.py:10" in told["MG202"]


def test_a_dictionary_that_keeps_the_whole_model_is_left_alone_by_a_second_run(tmp_path: Path) -> None:
    saved = plain().replace(
        'torch.save(model.state_dict(), "net.pt")', 'state = {"net": model}\n        torch.save(state, "net.pt")'
    )
    conversion = convert(tmp_path, saved)
    assert '{"net": nn.DataParallel(model.module)}' in result(conversion)
    assert not convert(tmp_path, result(conversion)).changes
