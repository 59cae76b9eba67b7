"""Collate functions that pad or draw, data sets without numbers, loops without a loader, synthetic data sets."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codemods.options import Options
from migrator.convert.pipeline import convert_program
from migrator.verify import ForkServer, Status, Verdict, VerifyRequest, to_text, verify

from .programs import edited, pair

PADDED = '''
def pad(samples):
    """Pads to the longest of the batch, and draws a mask."""
    longest = max(int(n) for _, n in samples)
    x = torch.zeros(len(samples), longest, 4)
    for row, (sample, n) in zip(x, samples):
        row[: int(n)] = sample[: int(n)]
    return {"x": x, "keep": torch.rand(len(samples), 1), "y": torch.stack([s.sum() for s, _ in samples])}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 1)

    def forward(self, x, keep):
        return (self.linear(x).mean(1) * keep).squeeze(1)


'''


def padded(text: str, side: str) -> str:
    model = "nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 3))"
    first = "torch.manual_seed(0)\n" if side == "before" else 'dist.init_process_group("nccl")\n'
    changes = [
        (first, PADDED + first),
        ("torch.randn(248, 10), torch.randint(0, 3, (248,))", "torch.randn(248, 9, 4), torch.randint(2, 10, (248,))"),
        (model, "Net()"),
        ("for x, y in loader:", "for batch in loader:"),
        (
            "nn.functional.cross_entropy(net(x.cuda()), y.cuda())",
            'nn.functional.mse_loss(net(batch["x"].cuda(), batch["keep"].cuda()), batch["y"].cuda())',
        ),
        (
            "shuffle=True)" if side == "before" else "sampler=sampler)",
            "shuffle=True, collate_fn=pad)" if side == "before" else "sampler=sampler, collate_fn=pad)",
        ),
    ]
    return edited(text, *changes)


def test_batches_of_a_padding_collate_function_are_replayed(check: Callable[..., Verdict]) -> None:
    before, after = pair("mlp")
    verdict = check(padded(before, "before"), padded(after, "after"))
    assert verdict.status is Status.EQUAL, to_text(verdict)
    assert any("collate" in note for note in verdict.notes)


def test_a_replay_does_not_hide_other_samples(check: Callable[..., Verdict]) -> None:
    before, after = pair("mlp")
    wrong = edited(padded(after, "after"), ("    sampler.set_epoch(epoch)\n", ""))
    verdict = check(padded(before, "before"), wrong)
    assert (verdict.status, verdict.cause) == (Status.DIFFERENT, "data"), to_text(verdict)


STREAM = """
class Stream(torch.utils.data.IterableDataset):
    def __init__(self, start, step):
        self.start, self.step = start, step

    def __iter__(self):
        generator = torch.Generator().manual_seed(7)
        rows = torch.randn(256, 10, generator=generator)
        size = 64 // self.step
        for first in range(0, 256, 64):
            for i in range(first + self.start * size, first + (self.start + 1) * size):
                yield rows[i], i % 3


"""


def test_a_stream_of_samples_is_compared_at_the_call(check: Callable[..., Verdict]) -> None:
    before, after = pair("mlp")
    data = "data = TensorDataset(torch.randn(248, 10), torch.randint(0, 3, (248,)))\n"
    before = edited(
        before,
        (data, STREAM),
        ("DataLoader(data, batch_size=64, shuffle=True)", "DataLoader(Stream(0, 1), batch_size=64)"),
    )
    after = edited(
        after,
        (data, STREAM),
        ("sampler = DistributedSampler(data, shuffle=True)\n", ""),
        (
            "DataLoader(data, batch_size=64 // world, sampler=sampler)",
            "DataLoader(Stream(rank, world), batch_size=64 // world)",
        ),
        ("    sampler.set_epoch(epoch)\n", ""),
    )
    verdict = check(before, after)
    assert verdict.status is Status.EQUAL, to_text(verdict)
    same = edited(after, ("Stream(rank, world)", "Stream(0, world)"))
    verdict = check(before, same)
    assert (verdict.status, verdict.cause) == (Status.DIFFERENT, "data"), to_text(verdict)


def test_a_loop_without_a_loader(check: Callable[..., Verdict]) -> None:
    before, after = pair("mlp")
    for_loop = "    for x, y in loader:\n"
    draw = "    for _ in range(3):\n        rows = torch.randint(0, 248, (64,))\n        x, y = data.tensors[0][rows], data.tensors[1][rows]\n"
    share = draw.replace("        x, y", "        rows = rows.chunk(world)[rank]\n        x, y")
    verdict = check(edited(before, (for_loop, draw)), edited(after, (for_loop, share)))
    assert verdict.status is Status.EQUAL, to_text(verdict)


def test_synthetic_data_sets(check: Callable[..., Verdict]) -> None:
    before, after = pair("mlp")
    data = "data = TensorDataset(torch.randn(248, 10), torch.randint(0, 3, (248,)))\n"
    fake = (
        "from torchvision import datasets, transforms\n"
        "data = datasets.CIFAR10('nowhere', download=True, transform=transforms.Compose(\n"
        "    [transforms.RandomCrop(8), transforms.ToTensor(), transforms.Lambda(lambda x: x.mean(2).flatten()[:10])]))\n"
        "assert len(data.targets) == len(data.data) == len(data)\n"
        "train, held_out = torch.utils.data.random_split(data, [45000, 5000])\n"
        "assert len(train) > len(held_out) > 0\n"
    )
    size = ("nn.Linear(32, 3)", "nn.Linear(32, 10)")
    seeded = fake + "torch.manual_seed(rank)\n"
    verdict = check(edited(before, (data, fake), size), edited(after, (data, seeded), size), fake_data=128)
    assert verdict.status is Status.EQUAL, to_text(verdict)


def by_weight(count: int, batch: int) -> str:
    """Samples drawn by weight, which a DistributedSampler cannot do: the converter splits the batches."""
    return f"""
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

        torch.manual_seed(0)
        data = TensorDataset(torch.randn(120, 10), torch.randint(0, 3, (120,)))
        loader = DataLoader(data, batch_size={batch}, sampler=WeightedRandomSampler(torch.rand(120), {count}))
        net = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 3)).cuda()
        net = nn.DataParallel(net)
        optimizer = torch.optim.Adam(net.parameters(), 0.01)
        for epoch in range(4):
            for x, y in loader:
                loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """


@pytest.mark.parametrize("float64", [False, True], ids=["float32", "float64"])
def test_a_split_batch_that_does_not_divide_is_named_and_the_rest_compared(
    server: ForkServer, tmp_path: Path, float64: bool
) -> None:
    verdict = converted(server, tmp_path, by_weight(54, 16), float64=float64, steps=10)
    assert verdict.status is Status.EQUAL, to_text(verdict)
    assert [row.compared for row in verdict.rows] == [True, True, True, False] * 2 + [True, True]
    assert "6 samples of a step do not divide over 4 processes: 2 of them are repeated" in " ".join(verdict.notes)
    assert max(max(r.gradient, r.parameter, r.buffer) for r in verdict.rows) <= (1e-9 if float64 else 1e-5)


def test_batches_that_never_divide_are_not_verifiable(server: ForkServer, tmp_path: Path) -> None:
    verdict = converted(server, tmp_path, by_weight(60, 30))
    assert verdict.status is Status.NOT_VERIFIABLE, to_text(verdict)
    assert "batches of 30 samples do not divide over 4 processes" in verdict.reason


def converted(server: ForkServer, folder: Path, text: str, **options: Any) -> Verdict:
    """Converted by the batch way, and checked on 4 devices."""
    before = folder / "before"
    before.mkdir()
    (before / "train.py").write_text(textwrap.dedent(text))
    conversion = convert_program(before / "train.py", Options())
    assert conversion.way == "batch", conversion.reason
    (folder / "after.py").write_text(conversion.changes[0].after)
    request = VerifyRequest(
        before / "train.py", folder / "after.py", cwd=before, timeout=120.0, patience=6.0, **options
    )
    return verify(request, server)
