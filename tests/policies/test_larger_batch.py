"""`--batch per-gpu`: the learning rate of each step is the formula's, whatever schedule the program has.

At step t of T on W ranks: schedule(t) × (1 + (W − 1) × min(1, t / ⌈0.05 T⌉)), in a program of its own schedule(t).
"""

import math

import pytest

from tests.rules.tools import check_question

PROGRAM = """\
import math
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 3
SHOWN = []


def adjust(optimizer, epoch):
    for group in optimizer.param_groups:
        group["lr"] = 0.1 * 0.5**epoch


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(160, 3), torch.randint(2, (160,)))
    loader = DataLoader(data, batch_size=4, shuffle=True)
    model = nn.DataParallel(nn.Linear(3, 2))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    {before}
    for epoch in range({span}):
        {first}
        for i, (inputs, targets) in enumerate(loader):
            loss = criterion(model(inputs), targets)
            {step}
        {last}


if __name__ == "__main__":
    main()
"""
STEP = """optimizer.zero_grad()
            loss.backward()
            optimizer.step()"""
COUNTED = "SHOWN.append(optimizer.param_groups[0]['lr'])"


def program(before="pass", first="pass", last="pass", step=STEP, span="EPOCHS"):
    return PROGRAM.format(before=before, first=first, last=last, step=step, span=span)


def by_epoch(factor):
    return lambda t, per_epoch: 0.1 * factor ** (t // per_epoch)


CASES = {
    "no schedule": (program(), lambda t, n: 0.1),
    "a scheduler by epochs": (
        program("scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)", last="scheduler.step()"),
        by_epoch(0.5),
    ),
    "a rate set by hand": (program(first="adjust(optimizer, epoch)"), by_epoch(0.5)),
    "a schedule by steps": (
        program(
            "scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 1 - t / (EPOCHS * len(loader)))",
            step=STEP + "\n            scheduler.step()",
        ),
        lambda t, n: 0.1 * (1 - t / (3 * n)),
    ),
    "schedulers in a chain": (
        program(
            "warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.5, total_iters=4)\n"
            "    rest = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)\n"
            "    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, rest], [4])",
            step=STEP + "\n            scheduler.step()",
        ),
        lambda t, n: 0.1 * (0.5 + 0.5 * t / 4 if t < 4 else 0.9 ** (t - 4)),
    ),
    "epochs counted from one": (program(span="1, EPOCHS + 1"), lambda t, n: 0.1),
}


def formula(schedule, world, per_epoch, epochs=3):
    steps = epochs * per_epoch
    warm_up = math.ceil(0.05 * steps)
    return [schedule(t, per_epoch) * (1 + (world - 1) * min(1, t / warm_up)) for t in range(steps)]


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("case", CASES)
def test_each_step_has_the_rate_of_the_formula(run, case, world):
    text, schedule = CASES[case]
    ran = run(text, world, batch="per-gpu")
    for rank in ran.ranks:
        assert rank["rates"] == pytest.approx(formula(schedule, world, 40 // world), rel=1e-6)
        assert rank["sums"] == ran.ranks[0]["sums"]
    assert ran.conversion.policies == ("--batch per-gpu",)


def test_one_process_trains_as_the_original(run):
    ran = run(program(), 1, batch="per-gpu")
    assert ran.ranks[0]["rates"] == pytest.approx([0.1] * 120)


def test_steps_over_several_batches_are_counted_as_steps(run):
    step = """(loss / 2).backward()
            if (i + 1) % 2 == 0:
                optimizer.step()
                optimizer.zero_grad()"""
    step = step.replace("(loss / 2).backward()", "loss = loss / 2\n            loss.backward()")
    ran = run(program(step=step), 2, batch="per-gpu")
    assert ran.ranks[0]["rates"] == pytest.approx(formula(lambda t, n: 0.1, 2, 10))
    assert "scale_learning_rate(optimizer, dist.get_world_size(), EPOCHS * len(loader) // 2)" in (
        ran.conversion.changes[0].after
    )


def test_the_program_shows_and_saves_its_own_rate(run):
    ran = run(program(step=STEP + "\n            " + COUNTED), 2, batch="per-gpu")
    assert set(ran.ranks[0]["shown"]) == {0.1}
    assert ran.ranks[0]["steps_taken"] == 60


def test_the_default_keeps_batch_and_rate(run):
    ran = run(program(), 2)
    assert ran.ranks[0]["rates"] == pytest.approx([0.1] * 120)
    assert ran.conversion.policies == ()


SAMPLED = (
    program(step="SHOWN.append(inputs[:, 0].tolist())\n            " + STEP)
    .replace("import DataLoader,", "import DataLoader, SubsetRandomSampler,")
    .replace("batch_size=4, shuffle=True", "batch_size=4, sampler=SubsetRandomSampler(range({n}))")
)


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("samples", [160, 148])
def test_batches_of_the_programs_own_sampler_are_dealt_out_whole(run, world, samples):
    ran = run(SAMPLED.replace("{n}", str(samples)), world, batch="per-gpu")
    assert ran.conversion.way == "batch"
    per_epoch = math.ceil(samples // 4 / world)
    for rank in ran.ranks:
        assert rank["rates"] == pytest.approx(formula(lambda t, n: 0.1, world, per_epoch), rel=1e-6)
        assert rank["sums"] == ran.ranks[0]["sums"]
        assert {len(batch) for batch in rank["shown"]} == {4}
    first_epoch = [value for rank in ran.ranks for batch in rank["shown"][:per_epoch] for value in batch]
    assert len(set(first_epoch)) == samples, "every sample of the epoch is trained on"
    assert len(first_epoch) - samples < 4 * world, "and at most world size - 1 batches repeat"


WEIGHTED = program().replace(
    "criterion = nn.CrossEntropyLoss()", "criterion = nn.CrossEntropyLoss(weight=torch.ones(2))"
)


def test_a_loss_that_looks_at_the_whole_batch_is_a_question():
    check_question(WEIGHTED, "a larger one may be another loss", "MG401", batch="per-gpu")
    check_question(WEIGHTED, "every process needs whole batches", "MG401", batch="per-gpu", sampling="call")


def test_a_loss_that_the_user_vouches_for_is_scaled(run):
    ran = run(WEIGHTED, 2, batch="per-gpu", loss="local")
    assert ran.ranks[0]["rates"] == pytest.approx(formula(lambda t, n: 0.1, 2, 20), rel=1e-6)
    assert ran.conversion.policies == ("--loss local", "--batch per-gpu")


def test_a_batch_that_grows_with_the_gpus_is_a_question():
    text = program().replace("batch_size=4", "batch_size=4 * torch.cuda.device_count()")
    check_question(text, "grows with the number of GPUs already", "MG401", batch="per-gpu")


def test_steps_counted_with_the_batch_size_are_a_question():
    text = (
        program("steps = len(data) // SIZE")
        .replace("batch_size=4", "batch_size=SIZE")
        .replace("EPOCHS = 3", "EPOCHS = 3\nSIZE = 4")
    )
    check_question(text, "there are fewer of them now", "MG401", batch="per-gpu")
