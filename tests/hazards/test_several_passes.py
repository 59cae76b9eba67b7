"""Steps with several forward and backward passes: shared out where each backward pass exchanges its gradients, else whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from codemods.options import Options
from migrator.convert.conversion import Conversion
from migrator.convert.pipeline import convert_program
from migrator.load.source import Source
from migrator.verify import ForkServer

from .trained import check_equal

Edit = tuple[str, str]
Target = Literal["ddp", "accelerate"]
TWO_PLAYERS = """\
import argparse
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def switch(net, on):
    for p in net.parameters():
        p.requires_grad = on


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 4) + 2), batch_size=args.batch, shuffle=True)
    maker = nn.DataParallel(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4)).cuda())
    judge = nn.DataParallel(nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1)).cuda())
    criterion = nn.BCEWithLogitsLoss()
    maker_optimizer = torch.optim.Adam(maker.parameters(), lr=2e-3)
    judge_optimizer = torch.optim.Adam(judge.parameters(), lr=2e-3)
    for epoch in range(2):
        for i, (real,) in enumerate(loader):
            real = real.cuda()
            # the judge
            n = real.size(0)
            ones, zeros = torch.ones(n, 1).cuda(), torch.zeros(n, 1).cuda()
            judge_optimizer.zero_grad()
            lost = criterion(judge(real), ones)
            lost.backward()
            fake = maker(torch.randn(n, 3).cuda())
            told = criterion(judge(fake.detach()), zeros)
            told.backward()
            judge_optimizer.step()
            # the maker
            maker_optimizer.zero_grad()
            criterion(judge(fake), ones).backward()
            maker_optimizer.step()


if __name__ == "__main__":
    main()
"""
JUDGE = TWO_PLAYERS[TWO_PLAYERS.index("            n = real") : TWO_PLAYERS.index("            # the maker\n")]
MAKER = TWO_PLAYERS[TWO_PLAYERS.index("            maker_optimizer.zero") : TWO_PLAYERS.index("\n\nif __name__")]
NOISE = "torch.randn(n, 3)"
REAL = "            lost.backward()\n"
FIXED = "            # the judge\n"
STATISTICS: tuple[Edit, ...] = (
    ("nn.Linear(3, 8), nn.ReLU()", "nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU()"),
    ("nn.Linear(4, 8), nn.Leaky", "nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Leaky"),
)
HINGE = """\
            judge_optimizer.zero_grad()
            fake = maker(torch.randn(real.shape[0], 3).cuda())
            lost = F.relu(1.0 - judge(real)).mean() + torch.mean(nn.ReLU()(1.0 + judge(fake.detach())))
            lost.backward()
            judge_optimizer.step()
            for p in judge.parameters():
                p.data.clamp_(-0.5, 0.5)
"""
NOW_AND_THEN = """\
            if i % args.every == 0:
                maker_optimizer.zero_grad()
                told = -judge(maker(torch.randn(real.shape[0], 3).cuda())).mean()
                told.backward()
                maker_optimizer.step()
"""
SWITCHED = MAKER.replace("            maker_opt", "            switch(judge, False)\n            maker_opt", 1) + (
    "            switch(judge, True)\n"
)
ONE_PASS = """\
            judge_optimizer.zero_grad()
            (criterion(judge(real), torch.ones(len(real), 1).cuda()) + F.softplus(judge(real * 0.5)).mean()).backward()
            judge_optimizer.step()
"""
HALF = """\
            judge_optimizer.zero_grad()
            lost = criterion(judge(real), torch.ones(len(real), 1).cuda())
            if args.every > 5:
                scaler.scale(lost).backward()
                scaler.step(judge_optimizer)
                scaler.update()
                continue
            lost.backward()
            judge_optimizer.step()
"""
OFTEN = "            for _ in range(args.every):\n" + HINGE.replace("            ", "                ").replace(
    "                    ", "                    "
)


def edited(*changes: Edit) -> str:
    text = TWO_PLAYERS
    for old, new in changes:
        assert text.count(old) == 1, f"{text.count(old)} times in the program: {old!r}"
        text = text.replace(old, new)
    compile(text, "train.py", "exec")
    return text


SHARED: dict[str, tuple[Edit, ...]] = {
    "real samples, then made ones, then the maker": STATISTICS,
    "the judge is frozen while the maker learns": (*STATISTICS, (MAKER, SWITCHED)),
    "the maker learns now and then": ((JUDGE, HINGE), (MAKER, NOW_AND_THEN)),
    "the judge learns several times from a batch": ((JUDGE, OFTEN), (MAKER, NOW_AND_THEN)),
    "two losses of two passes are added": ((JUDGE, ONE_PASS), (MAKER, "")),
    "a pass back in each of two ways": (
        ("    maker_optimizer = ", "    scaler = torch.amp.GradScaler('cuda', enabled=False)\n    maker_optimizer = "),
        (JUDGE, HALF),
        (MAKER, ""),
    ),
}
MOST_IMPORTANT = ["the judge is frozen while the maker learns", "the maker learns now and then"]
BACK = "there is more than one backward pass"
DRAWN = "random numbers are drawn"
MEAN = "not a plain mean"
WHOLE: dict[str, tuple[str, tuple[Edit, ...]]] = {
    "both pass forward before the first goes back": (
        BACK,
        ((REAL, ""), ("            told.backward()\n", "            lost.backward()\n            told.backward()\n")),
    ),
    "one pass goes back twice": (
        BACK,
        ((REAL, "            lost.backward(retain_graph=True)\n            (0.1 * lost).backward()\n"),),
    ),
    "a made sample goes back through the maker twice": (
        BACK,
        (
            ("judge(fake.detach())", "judge(fake)"),
            ("            told.backward()", "            told.backward(retain_graph=True)"),
        ),
    ),
    "statistics change between a pass and its way back": (
        "statistics",
        (*STATISTICS, (JUDGE, HINGE), (MAKER, NOW_AND_THEN)),
    ),
    "samples decide whether the maker learns": (
        "own samples",
        ((MAKER, "            if lost < 1:\n" + MAKER.replace("            ", "                ")),),
    ),
    "chance decides whether the maker learns": (
        DRAWN,
        ((MAKER, "            if random.random() < 0.5:\n" + MAKER.replace("            ", "                ")),),
    ),
    "noise for a number of samples that is not the share's": (DRAWN, ((NOISE, "torch.randn(args.batch, 3)"),)),
    "samples are put in another order": (
        DRAWN,
        ((FIXED, FIXED + "            real = real[torch.randperm(len(real))]\n"),),
    ),
    "noise from a stream of its own": (
        DRAWN,
        (
            (NOISE, "torch.randn(n, 3, generator=stream)"),
            ("    criterion = ", "    stream = torch.Generator()\n    criterion = "),
        ),
    ),
    "noise that is the same for all samples": (DRAWN, ((NOISE, "torch.randn(1, 3).expand(n, 3)"),)),
    "a part of the judge is frozen": (
        "frozen",
        (
            (
                MAKER,
                SWITCHED.replace("switch(judge, False)", "judge.module[0].requires_grad_(False)"),
            ),
        ),
    ),
    "a part was frozen before": (
        "frozen",
        ((MAKER, SWITCHED), ("    for epoch", "    judge.module[2].bias.requires_grad = False\n    for epoch")),
    ),
    "the judge is frozen between a pass and its way back": (
        "frozen",
        (
            (
                MAKER,
                "            maker_optimizer.zero_grad()\n            hope = criterion(judge(fake), ones)\n"
                "            switch(judge, False)\n            hope.backward()\n            switch(judge, True)\n"
                "            maker_optimizer.step()\n",
            ),
        ),
    ),
    "a loss that looks at the whole batch": (MEAN, (("criterion(judge(real), ones)", "judge(real).std()"),)),
    "a square of a mean": (MEAN, (("criterion(judge(real), ones)", "judge(real).mean() ** 2"),)),
    "the judge meets the mean of the samples": (
        "more than this batch",
        (("criterion(judge(real)", "criterion(judge(real - real.mean(0))"),),
    ),
    "a network that is frozen is wrapped as well": (
        "frozen",
        (
            (
                "    criterion = ",
                "    guide = nn.Linear(4, 4).cuda()\n    guide.requires_grad_(False)\n    guide = nn.DataParallel(guide)\n    criterion = ",
            ),
            ("criterion(judge(real), ones)", "criterion(judge(guide(real)), ones)"),
        ),
    ),
    "a network that is not trained is wrapped as well": (
        "not trained",
        (
            ("    criterion = ", "    guide = nn.DataParallel(nn.Linear(4, 4)).cuda()\n    criterion = "),
            (FIXED, FIXED + "            with torch.no_grad():\n                real = guide(real)\n"),
        ),
    ),
    "two wrappers share a network": (
        BACK,
        (
            ("    judge = nn.DataParallel(nn.Sequential(", "    core = (nn.Sequential("),
            (
                "    criterion = ",
                "    judge = nn.DataParallel(core)\n    same = nn.DataParallel(core)\n    criterion = ",
            ),
            ("judge(fake.detach())", "same(fake.detach())"),
        ),
    ),
    "one function wraps both networks": (
        BACK,
        (
            (
                "def main():",
                "def wrapped(net):\n    net = nn.DataParallel(net.cuda())\n    return net\n\n\ndef main():",
            ),
            (
                "nn.DataParallel(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4)).cuda())",
                "wrapped(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4)))",
            ),
            (
                "nn.DataParallel(nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1)).cuda())",
                "wrapped(nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1)))",
            ),
        ),
    ),
    "a setting says whether a pass is followed": (
        BACK,
        (
            (
                "            lost = criterion",
                "            with torch.set_grad_enabled(args.every > 1):\n                lost = criterion",
            ),
        ),
    ),
    "gradients of some parameters only": (
        BACK,
        ((REAL, "            lost.backward(inputs=list(judge.parameters()))\n"),),
    ),
    "a penalty on gradients": (
        MEAN,
        (
            (
                REAL,
                REAL + "            real.requires_grad_(True)\n"
                "            slope = torch.autograd.grad(judge(real).sum(), real, create_graph=True)[0]\n"
                "            (slope**2).mean().backward()\n",
            ),
        ),
    ),
}


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer(preload=("numpy", "accelerate")) as server:
        yield server


def convert(text: str, options: Options | None = None) -> Conversion:
    return convert_program(Path("train.py"), options or Options(), Source("train.py", text))


@pytest.mark.parametrize("target", ["ddp", "accelerate"])
@pytest.mark.parametrize("name", SHARED)
def test_each_process_goes_on_with_its_share(name: str, target: Target) -> None:
    conversion = convert(edited(*SHARED[name]), Options(target=target))
    assert conversion.way == "distributed", conversion.reason
    assert not any(d.rule == "MG405" for d in conversion.diagnostics), "no outputs have to be put together"


@pytest.mark.parametrize("name", WHOLE)
def test_the_batch_stays_whole(name: str) -> None:
    why, changes = WHOLE[name]
    conversion = convert(edited(*changes))
    assert conversion.way == "call" and why in conversion.reason, conversion.reason


def test_rows_that_a_process_draws_are_named_and_no_two_processes_draw_the_same() -> None:
    conversion = convert(edited())
    assert any(
        d.rule == "MG203" and d.level == "note" and "draws these rows" in d.message for d in conversion.diagnostics
    )
    alike = convert(edited(), Options(seed_policy="same"))
    assert alike.way == "call" and "draw the same rows" in alike.reason


@pytest.mark.parametrize("target", ["ddp", "accelerate"])
@pytest.mark.parametrize("name", MOST_IMPORTANT)
def test_the_most_important_train_the_same(
    name: str, target: Target, tmp_path: Path, server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_equal(edited(*SHARED[name]), tmp_path, server, monkeypatch, options=Options(target=target))


@pytest.mark.long
@pytest.mark.parametrize("target", ["ddp", "accelerate"])
@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("name", SHARED)
def test_trains_the_same(
    name: str, devices: int, target: Target, tmp_path: Path, server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_equal(edited(*SHARED[name]), tmp_path, server, monkeypatch, devices, Options(target=target))
