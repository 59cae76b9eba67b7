"""`--amp`: half precision where it is asked for, on whatever device there is; off and on in programs that have their own."""

import re

import pytest

from tests.policies.conftest import WORLDS
from tests.rules.tools import check_question, check_rewrite, convert, training

PROGRAM = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SHOWN = []


def train(loader, model, criterion, optimizer):
    for inputs, targets in loader:
        optimizer.zero_grad()
        output = model(inputs)
        loss = criterion(output, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        SHOWN.append([str(output.dtype), loss.item()])


def main():
    torch.manual_seed(0)
    inputs = torch.randn(64, 3)
    data = TensorDataset(inputs, (inputs[:, 0] > 0).long())
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Linear(3, 2).float())
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for epoch in range(2):
        train(loader, model, criterion, optimizer)


if __name__ == "__main__":
    torch.set_default_dtype(torch.float32)
    main()
"""


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("sampling", ["auto", "call"])
@pytest.mark.parametrize(("amp", "dtype"), [("bf16", "torch.bfloat16"), ("fp16", "torch.float16")])
def test_the_forward_pass_has_half_the_bits_and_trains(run, amp, dtype, sampling, world):
    ran = run(PROGRAM, world, amp=amp, sampling=sampling)
    shown = ran.ranks[0]["shown"]
    assert {kind for kind, _ in shown} == {dtype}
    assert sum(loss for _, loss in shown[8:]) < sum(loss for _, loss in shown[:8])
    assert ran.ranks[0]["sums"] == ran.ranks[1]["sums"]
    assert ran.conversion.policies == (f"--amp {amp}",)


def test_gradients_are_unscaled_before_they_are_clipped():
    check_rewrite(
        PROGRAM,
        """
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        """,
        "MG402",
        amp="fp16",
    )


def test_bfloat16_needs_no_scaler():
    conversion = convert(PROGRAM, amp="bf16")
    assert "scaler" not in conversion.changes[0].after


def test_the_programs_own_device_says_where_autocast_runs():
    text = training("").replace("def main():\n", 'def main():\n    device = torch.device("cuda")\n')
    text = text.replace(
        "model = nn.DataParallel(nn.Linear(4, 2))", "model = nn.DataParallel(nn.Linear(4, 2)).to(device)"
    )
    check_rewrite(
        text,
        """
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        """,
        "MG402",
        amp="bf16",
    )


def test_two_losses_share_one_scaler():
    text = training("").replace(
        "            optimizer.step()\n",
        "            optimizer.step()\n"
        "            second = nn.functional.cross_entropy(model(inputs), targets)\n"
        "            second.backward()\n"
        "            optimizer.step()\n",
    )
    after = convert(text, amp="fp16").changes[0].after
    assert after.count("GradScaler(") == 1
    assert after.count("scaler.scale(") == 2


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("loss.backward()", "loss.backward(torch.ones(()))", "the gradient of the loss is given by hand"),
        ("optimizer.step()", "optimizer.step(lambda: loss)", "the step takes a closure"),
        (
            "SHOWN.append(",
            "predicted = output.detach().cpu().numpy()\n        SHOWN.append(",
            "numpy has no bfloat16",
        ),
    ],
)
def test_a_step_that_was_not_understood_is_a_question(old, new, why):
    check_question(PROGRAM.replace(old, new), why, "MG402", amp="bf16")


OWN = PROGRAM.replace(
    "        output = model(inputs)\n        loss = criterion(output, targets)\n        loss.backward()\n",
    "        with torch.autocast('cpu', dtype=torch.bfloat16):\n"
    "            output = model(inputs)\n"
    "            loss = criterion(output, targets)\n"
    "        loss.backward()\n",
)


@pytest.mark.parametrize("world", WORLDS)
def test_the_programs_own_precision_is_kept(run, world):
    ran = run(OWN, world)
    assert {kind for kind, _ in ran.ranks[0]["shown"]} == {"torch.bfloat16"}
    assert ran.conversion.policies == ()


@pytest.mark.parametrize("world", WORLDS)
def test_the_programs_own_precision_is_turned_off(run, world):
    ran = run(OWN, world, amp="off")
    assert {kind for kind, _ in ran.ranks[0]["shown"]} == {"torch.float32"}
    assert ran.conversion.policies == ("--amp off",)


def test_old_autocast_takes_the_users_type_and_todays_name():
    text = OWN.replace("torch.autocast('cpu', dtype=torch.bfloat16)", "torch.cuda.amp.autocast()")
    conversion = check_rewrite(
        text, 'with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):', "MG403", amp="bf16"
    )
    assert any(d.rule == "MG010" and d.fix for d in conversion.diagnostics)


def test_float16_without_a_scaler_is_a_question():
    check_question(OWN, "needs a GradScaler", "MG403", amp="fp16")


APEX = (
    PROGRAM.replace("import torch\n", "import torch\nfrom apex import amp\n", 1)
    .replace(
        "    for epoch in",
        '    if HALF:\n        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")\n    for epoch in',
    )
    .replace(
        "        loss.backward()\n        nn.utils.clip_grad_norm_(model.parameters(), 0.5)\n",
        "        if HALF:\n"
        "            with amp.scale_loss(loss, optimizer) as scaled_loss:\n"
        "                scaled_loss.backward()\n"
        "            nn.utils.clip_grad_norm_(amp.master_params(optimizer), 0.5)\n"
        "        else:\n"
        "            loss.backward()\n",
    )
    .replace("SHOWN = []", "SHOWN = []\nHALF = True")
)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(
    ("amp", "dtype"), [("bf16", "torch.bfloat16"), ("fp16", "torch.float16"), ("off", "torch.float32")]
)
def test_apex_gives_way_to_torch(run, amp, dtype, world):
    ran = run(APEX, world, amp=amp)
    assert {kind for kind, _ in ran.ranks[0]["shown"]} == {dtype}
    assert "apex" not in ran.conversion.changes[0].after
    assert ran.conversion.policies == (f"--amp {amp}",)


def test_apex_scales_where_torch_does():
    check_rewrite(
        APEX,
        """
        if HALF:
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], 0.5)
        else:
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        """,
        "MG402",
        amp="fp16",
    )


ALWAYS = APEX.replace("    if HALF:\n        model, optimizer", "    model, optimizer")
ALWAYS = ALWAYS.replace(
    "        if HALF:\n"
    "            with amp.scale_loss(loss, optimizer) as scaled_loss:\n"
    "                scaled_loss.backward()\n"
    "            nn.utils.clip_grad_norm_(amp.master_params(optimizer), 0.5)\n"
    "        else:\n"
    "            loss.backward()\n",
    "        with amp.scale_loss(loss, optimizer) as scaled_loss:\n"
    "            scaled_loss.backward()\n"
    "        nn.utils.clip_grad_norm_(amp.master_params(optimizer), 0.5)\n",
)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(
    ("level", "dtype"),
    [(', opt_level="O1"', "torch.float16"), (', opt_level="O0"', "torch.float32"), ("", "torch.float16")],
)
def test_a_level_of_apex_that_the_program_names_is_kept(run, level, dtype, world):
    ran = run(ALWAYS.replace(', opt_level="O1"', level), world)
    assert {kind for kind, _ in ran.ranks[0]["shown"]} == {dtype}
    assert "apex" not in ran.conversion.changes[0].after
    assert ran.conversion.policies == ()
    assert ran.ranks[0]["sums"] == ran.ranks[1]["sums"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (APEX, "its O1 is --amp fp16; it will hold whatever `HALF` says"),
        (ALWAYS.replace('"O1"', '"O2"'), "its O2 keeps the weights in float16"),
        (ALWAYS.replace('"O1"', '"O3"'), "its O3 keeps the weights in float16"),
        (ALWAYS.replace('"O1"', "LEVEL"), "--amp fp16 is what its O1 does, off its O0"),
    ],
)
def test_a_level_of_apex_that_is_not_certain_is_a_question(text, why):
    check_question(text, why, "MG404")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (
            "scaled_loss.backward()",
            "scaled_loss.backward()\n                optimizer.step()",
            "more than the backward pass",
        ),
        ("model, optimizer = amp", "net, optimizer = amp", "gives new names"),
        ("SHOWN.append(", "state = amp.state_dict()\n        SHOWN.append(", "state_dict has no equal"),
    ],
)
def test_uses_of_apex_that_were_not_understood_are_questions(old, new, why):
    check_question(APEX.replace(old, new), why, "MG404", amp="fp16")


def test_nothing_is_said_by_default():
    conversion = convert(PROGRAM)
    assert not re.search(r"autocast|GradScaler", conversion.changes[0].after)
