"""Outputs and targets that are put together give the original's loss, figures and decisions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.pipeline import convert_program
from migrator.load.source import Source
from migrator.verify import ForkServer

from .test_not_way_one import (
    AFTER,
    BACKWARD,
    BATCHES,
    EPOCHS,
    FORWARD,
    LOSS,
    MODEL,
    PLAIN,
    STEPPED,
    WHOLE,
    Edit,
    edited,
)
from .trained import check_equal

MOST_IMPORTANT = ["classes have weights", "samples are compared with each other", "an output is not always in the loss"]


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer(preload=("numpy",)) as server:
        yield server


def check(name: str, folder: Path, server: ForkServer, devices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_equal(edited(*WHOLE[name]), folder, server, monkeypatch, devices)


@pytest.mark.parametrize("name", MOST_IMPORTANT)
def test_the_most_important_train_the_same(name: str, tmp_path: Path, server: ForkServer, monkeypatch) -> None:
    check(name, tmp_path, server, 2, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("name", WHOLE)
def test_trains_the_same(name: str, devices: int, tmp_path: Path, server: ForkServer, monkeypatch) -> None:
    check(name, tmp_path, server, devices, monkeypatch)


# ---------------------------------------------------------------- where things are put together
def step(*changes: Edit) -> list[str]:
    """The lines of the converted program's step, without its indentation."""
    conversion = convert_program(Path("train.py"), Options(), Source("train.py", edited(*changes)))
    (text,) = [change.after for change in conversion.changes if change.path == "train.py"]
    lines = [line.strip() for line in text.splitlines()]
    start = next(i for i, line in enumerate(lines) if line.startswith("for ") and "in enumerate(" in line)
    return lines[start + 1 : lines.index(BACKWARD.strip())]


SUM: Edit = ("nn.CrossEntropyLoss()", 'nn.CrossEntropyLoss(reduction="sum")')


def test_targets_become_whole_before_the_model_is_called_and_outputs_where_it_is() -> None:
    assert step(SUM)[:4] == [
        "x, y = x.cuda(), y.cuda()",
        "y = whole_batch(y)",
        "out = whole_batch(model(x))",
        "loss = criterion(out, y)",
    ]


def test_a_number_of_samples_is_asked_of_what_is_whole_already() -> None:
    lines = step(SUM, (LOSS, "            loss = criterion(out, y) / x.size(0)\n"))
    assert "loss = criterion(out, y) / y.size(0)" in lines


def test_a_number_of_samples_before_the_call_is_that_of_the_whole_batch() -> None:
    lines = step(
        (MODEL, "            count = x.size(0)\n" + MODEL),
        (LOSS, "            loss = criterion(out, y).sum() * count\n"),
    )
    assert lines[1:4] == ["y = whole_batch(y)", "count = y.size(0)", "out = whole_batch(model(x))"]


@pytest.mark.parametrize("asked", ["x.shape[1] == 8", "x.size(1) == 8", "x.dtype == torch.float32", "x.dim() == 2"])
def test_what_samples_have_in_common_can_be_asked_of_a_share(asked: str) -> None:
    lines = step(SUM, (MODEL, f"            assert {asked}\n" + MODEL))
    assert lines[1:4] == [f"assert {asked}", "y = whole_batch(y)", "out = whole_batch(model(x))"]


def test_inputs_that_the_loss_looks_at_become_whole_behind_the_call() -> None:
    lines = step((LOSS, "            loss = criterion(out, y) + ((out - x[:, :4]) ** 2).sum()\n"))
    assert lines[1:4] == ["y = whole_batch(y)", "out = whole_batch(model(x))", "x = whole_batch(x)"]


def test_the_loss_in_the_model_s_own_statement() -> None:
    lines = step(SUM, (MODEL, ""), (LOSS, "            loss = criterion(model(x), y)\n"))
    assert lines[1:3] == ["y = whole_batch(y)", "loss = criterion(whole_batch(model(x)), y)"]


def test_only_what_the_loss_takes_from_a_batch_is_put_together() -> None:
    lines = step(
        SUM,
        ("for i, (x, y) in enumerate(loader)", "for i, batch in enumerate(loader)"),
        ("            x, y = x.cuda(), y.cuda()\n", ""),
        (MODEL, "            out = model(batch[0].cuda())\n"),
        (LOSS, "            loss = criterion(out, batch[1].cuda())\n"),
    )
    assert lines[:2] == [
        "out = whole_batch(model(batch[0].cuda()))",
        "loss = criterion(out, whole_batch(batch[1]).cuda())",
    ]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ((MODEL, "            x = x / x.std()\n" + MODEL), "the model"),
        ((STEPPED, "            print(torch.rand(1))\n"), "random numbers"),
        ((MODEL, "            if i:\n                out = model(x)\n"), "in every step"),
    ],
)
def test_what_cannot_be_put_together_stays_whole(change: Edit, why: str) -> None:
    conversion = convert_program(Path("train.py"), Options(), Source("train.py", edited(SUM, change)))
    assert conversion.way == "call" and why in conversion.reason


TWO_MODELS: tuple[Edit, ...] = (
    ("    criterion = ", "    other = nn.DataParallel(Net()).cuda()\n    criterion = "),
    ("torch.optim.SGD(model.parameters()", "torch.optim.SGD([*model.parameters(), *other.parameters()]"),
    (MODEL, MODEL + "            same = other(x)\n"),
    (LOSS, "            loss = criterion(out, y) + (out - same).pow(2).mean()\n"),
)


def test_the_outputs_of_two_models_are_put_together() -> None:
    assert step(*TWO_MODELS)[1:5] == [
        "y = whole_batch(y)",
        "out = whole_batch(model(x))",
        "same = whole_batch(other(x))",
        "loss = criterion(out, y) + (out - same).pow(2).mean()",
    ]


def test_a_step_that_is_a_function_of_its_own() -> None:
    function = (
        "def step(model, criterion, optimizer, x, y):\n    x, y = x.cuda(), y.cuda()\n    loss = criterion(model(x), y)\n"
        "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n    return loss.item()\n\n\ndef main():"
    )
    body = PLAIN[PLAIN.index("            x, y = x.cuda(), y.cuda()\n") : PLAIN.index("            # after the step\n")]
    text = edited(SUM, ("def main():", function), (body, "            step(model, criterion, optimizer, x, y)\n"))
    conversion = convert_program(Path("train.py"), Options(), Source("train.py", text))
    (after,) = [change.after for change in conversion.changes if change.path == "train.py"]
    assert conversion.way == "distributed"
    assert "    y = whole_batch(y)\n    loss = criterion(whole_batch(model(x)), y)\n" in after


def test_the_bare_network_under_another_name_is_no_call_of_the_wrapped_model() -> None:
    bare = ((SUM), (EPOCHS, "    net = model.module\n"), (MODEL, "            out = net(x)\n"))
    conversion = convert_program(Path("train.py"), Options(), Source("train.py", edited(*bare)))
    assert conversion.way == "call" and "past its wrapper" in conversion.reason


def test_each_branch_of_a_step_calls_the_model_once() -> None:
    branches = "            if args.epochs > 5:\n                out = model(x)\n            else:\n                out = model(x * 2)\n"
    assert step(SUM, (MODEL, branches))[1:6] == [
        "y = whole_batch(y)",
        "if args.epochs > 5:",
        "out = whole_batch(model(x))",
        "else:",
        "out = whole_batch(model(x * 2))",
    ]


def test_a_second_call_behind_the_first_is_put_together_too() -> None:
    again = MODEL + "            out = out + model(x)\n"
    assert step(SUM, (MODEL, again))[2:4] == ["out = whole_batch(model(x))", "out = out + whole_batch(model(x))"]


def test_nothing_is_put_together_where_only_one_process_goes() -> None:
    lines = step(
        SUM,
        ("for i, (x, y) in enumerate(loader)", "for i, batch in enumerate(loader)"),
        ("            x, y = x.cuda(), y.cuda()\n", ""),
        (MODEL, "            out = model(batch[0].cuda())\n"),
        (LOSS, "            loss = criterion(out, batch[1].cuda())\n            np.save('y.npy', batch[1])\n"),
    )
    assert lines[:4] == [
        "out = whole_batch(model(batch[0].cuda()))",
        "batch = whole_batch(batch)",
        "loss = criterion(out, batch[1].cuda())",
        "if dist.get_rank() == 0:",
    ]


def test_what_is_looked_at_in_some_steps_becomes_whole_in_all() -> None:
    seen = "            if i % 2 == 0:\n                top = y.max()\n"
    lines = step(SUM, (MODEL, seen + MODEL), (LOSS, "            loss = criterion(out, y) * top\n"))
    assert lines[1:4] == ["y = whole_batch(y)", "if i % 2 == 0:", "top = y.max()"]


# ---------------------------------------------------------------- what the whole batch does not reach
OTHER: Edit = ("    criterion = ", "    other = nn.DataParallel(nn.Linear(8, 8)).cuda()\n    criterion = ")
STEP_BODY = PLAIN[PLAIN.index("            x, y = x.cuda(), y.cuda()\n") : PLAIN.index(STEPPED)]
STEP_FUNCTION: Edit = (
    "def main():",
    "def step(model, criterion, optimizer, x, y):\n    loss = criterion(model(x), y)\n"
    "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n    return loss.item()\n\n\ndef main():",
)
MADE_STEP = "step(model, criterion, optimizer, x, y)"
OUT_OF_REACH: dict[str, tuple[str, tuple[Edit, ...]]] = {
    "a head beside the model drops out": (
        "random numbers",
        (
            ("    criterion = ", "    head = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).cuda()\n    criterion = "),
            (LOSS, "            loss = criterion(head(out), y)\n"),
        ),
    ),
    "outputs drop out": ("random numbers", ((LOSS, "            loss = criterion(F.dropout(out), y)\n"),)),
    "noise is drawn by a method": (
        "random numbers",
        ((LOSS, "            loss = criterion(out + out.new(out.shape).normal_(), y)\n"),),
    ),
    "a condition draws": (
        "random numbers",
        ((LOSS, LOSS + "            if random.random() < 0.5:\n                continue\n"),),
    ),
    "targets are read in a function that is not given them": (
        "not given it",
        (
            (EPOCHS, "    def compare(out):\n        return criterion(out, y)\n\n"),
            (LOSS, "            loss = compare(out)\n"),
        ),
    ),
    "a trained tensor is added to the inputs": (
        "trained and used before",
        (
            ("    criterion = ", "    prompt = nn.Parameter(torch.zeros(1, 8).cuda())\n    criterion = "),
            ("torch.optim.SGD(model.parameters()", "torch.optim.SGD([*model.parameters(), prompt]"),
            (MODEL, "            out = model(x + prompt)\n"),
        ),
    ),
    "a model inside the call of another": (
        "outputs of another",
        (OTHER, (MODEL, "            out = model(other(x))\n")),
    ),
    "a model is given what another's outputs say of the batch": (
        "outputs of another",
        (OTHER, (MODEL, "            centre = other(x).mean(0)\n            out = model(x + centre)\n")),
    ),
    "the loader is asked for the size of its batches": (
        "this process's batches",
        ((LOSS, LOSS + "            loss = loss / loader.batch_size\n"),),
    ),
    "only the last targets are read, behind the loop": (
        "share only",
        (
            (FORWARD, "        return self.head(x).pow(2).sum()\n"),
            (LOSS, "            loss = out.sum()\n"),
            (AFTER, "        optimizer.param_groups[0]['lr'] = y.float().mean().item()\n"),
        ),
    ),
    "an array made of the inputs": (
        "no tensor",
        (
            (MODEL, "            array = x.cpu().numpy()\n" + MODEL),
            (STEPPED, "            optimizer.param_groups[0]['lr'] = float(array.std())\n"),
        ),
    ),
    "inputs are looped over before the call": (
        "before the model is called",
        (
            (MODEL, "            total = 0\n            for row in x:\n                total += row.sum()\n" + MODEL),
            (LOSS, LOSS + "            loss = loss * total\n"),
        ),
    ),
    "inputs decide which branch calls the model": (
        "before the model is called",
        (
            (
                MODEL,
                "            if x.sum() > 0:\n                out = model(x)\n"
                "            else:\n                out = model(x * 2)\n",
            ),
        ),
    ),
    "targets get another value behind a copy": (
        "another value by then",
        (
            (MODEL, "            old = y.float()\n            y = y * 0\n" + MODEL),
            (LOSS, LOSS + "            loss = loss * old.std()\n"),
        ),
    ),
    "two names change places": (
        "another value by then",
        (
            ("TensorDataset(", "TensorDataset(torch.randint(4, (64,)), "),
            ("for i, (x, y) in", "for i, (z, x, y) in"),
            (MODEL, "            y, z = z, y\n" + MODEL),
            (LOSS, LOSS + "            loss = loss * (y == z).sum()\n"),
        ),
    ),
    "the caller of a step weights what it gives back": (
        "outside of the step",
        (
            STEP_FUNCTION,
            (BATCHES, "        total = 0.0\n"),
            (STEP_BODY, f"            total += {MADE_STEP} * x.size(0)\n"),
        ),
    ),
    "the caller of a step counts samples": (
        "share only",
        (
            STEP_FUNCTION,
            (BATCHES, "        seen = 0\n"),
            (STEP_BODY, f"            seen += x.size(0)\n            {MADE_STEP}\n"),
            (AFTER, "        optimizer.param_groups[0]['lr'] = 1 / seen\n"),
        ),
    ),
}


@pytest.mark.parametrize("name", OUT_OF_REACH)
def test_the_batch_stays_whole_where(name: str) -> None:
    why, changes = OUT_OF_REACH[name]
    conversion = convert_program(Path("train.py"), Options(), Source("train.py", edited(SUM, *changes)))
    assert conversion.way == "call" and why in conversion.reason, conversion.reason


def test_a_part_that_gets_a_new_value_behind_the_call_is_put_together_once() -> None:
    lines = step(
        SUM,
        ("for i, (x, y) in enumerate(loader)", "for i, batch in enumerate(loader)"),
        ("            x, y = x.cuda(), y.cuda()\n", ""),
        (MODEL, "            out = model(batch[0].cuda())\n            batch[1] = batch[1].cuda()\n"),
        (LOSS, "            loss = criterion(out, batch[1])\n"),
    )
    assert lines[:4] == [
        "out = whole_batch(model(batch[0].cuda()))",
        "batch = whole_batch(batch)",
        "batch[1] = batch[1].cuda()",
        "loss = criterion(out, batch[1])",
    ]


def test_the_length_of_a_sampler_is_asked_of_the_data_set() -> None:
    asked: Edit = (LOSS, LOSS + "            loss = loss / len(loader.sampler)\n")
    conversion = convert_program(Path("train.py"), Options(), Source("train.py", edited(SUM, asked)))
    assert conversion.way == "distributed" and "loss / len(loader.dataset)" in conversion.changes[0].after
