"""Kinds of programs: each hand-made conversion is EQUAL, freely in float64 and resynchronised in float32."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from migrator.verify import Status, Verdict, to_text

from .programs import SPLIT_TEMPLATE, edited, pair

KINDS = ("mlp", "scaler", "resnet", "bert", "accumulation", "gan", "trainer", "split")
UPDATE = "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n"
SCALED = """
        optimizer.zero_grad()
        if scaler.get_scale() == 65536.0:
            loss.register_hook(lambda gradient: gradient * float("inf"))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""


def kind(name: str) -> tuple[str, str]:
    """Both programs of a kind; "scaler" is the MLP with a loss scale, clipping and a first step that overflows."""
    if name != "scaler":
        return pair(name)
    before, after = pair("mlp")
    made = ("0.1, momentum=0.9)\n", '0.1, momentum=0.9)\nscaler = torch.amp.GradScaler("cuda")\n')
    changes = ((UPDATE, SCALED.lstrip("\n")), made)
    return edited(before, *changes), edited(after, *changes)


def files(name: str) -> dict[str, str]:
    return {"split_data_parallel.py": SPLIT_TEMPLATE.read_text()} if name == "split" else {}


@pytest.mark.parametrize("float64", [False, True], ids=["float32", "float64"])
@pytest.mark.parametrize("name", KINDS)
def test_a_right_conversion_is_equal(check: Callable[..., Verdict], name: str, float64: bool) -> None:
    verdict = check(*kind(name), files(name), float64=float64)
    assert verdict.status is Status.EQUAL, to_text(verdict)
    limit = 1e-9 if float64 else 1e-5
    assert verdict.steps >= 4
    assert max(max(r.gradient, r.parameter, r.buffer, r.loss_difference) for r in verdict.rows) <= limit
    assert all(row.samples_before == row.samples_after > 0 for row in verdict.rows)


def test_weights_that_come_from_a_float32_array_are_float64_too(check: Callable[..., Verdict]) -> None:
    before, after = pair("mlp")
    given = "\nimport numpy\nnet.module[0].weight.data = torch.from_numpy(numpy.full((32, 10), 0.1, dtype='float32'))\noptimizer = "
    verdict = check(edited(before, ("\noptimizer = ", given)), edited(after, ("\noptimizer = ", given)), float64=True)
    assert verdict.status is Status.EQUAL, to_text(verdict)


@pytest.mark.parametrize("name", ["mlp", "split"])
def test_four_devices(check: Callable[..., Verdict], name: str) -> None:
    verdict = check(*pair(name), files(name), devices=4)
    assert verdict.status is Status.EQUAL, to_text(verdict)


def test_the_check_reaches_the_second_epoch(check: Callable[..., Verdict]) -> None:
    before, after = pair("mlp")
    verdict = check(before, edited(after, ("    sampler.set_epoch(epoch)\n", "")))
    assert verdict.status is Status.DIFFERENT
    assert (verdict.cause, verdict.findings[0].step) == ("data", 4)


SHIFTED = (
    "nn.functional.cross_entropy(net(x.cuda()), y.cuda())",
    "nn.functional.cross_entropy(net(x.cuda()), y.cuda()) * {factor}",
)


def test_a_difference_of_roundings_size_is_settled_in_float64(check: Callable[..., Verdict]) -> None:
    """An arithmetic that rounds differently in float32 is EQUAL; a true factor of the same size is not."""
    before, after = pair("mlp")
    rounded = edited(after, (SHIFTED[0], "(" + SHIFTED[0] + " + 3000.0 - 3000.0)"))
    verdict = check(before, rounded)
    assert verdict.status is Status.EQUAL, to_text(verdict)
    assert verdict.float64 and "gone in float64" in " ".join(verdict.notes)
    verdict = check(before, edited(after, (SHIFTED[0], SHIFTED[1].format(factor="1.00005"))))
    assert (verdict.status, verdict.cause) == (Status.DIFFERENT, "loss"), to_text(verdict)


GROWING = (
    ("batch_size=64", "batch_size=8"),
    ("0.1, momentum=0.9)", "1.0, momentum=0.9)"),
    (
        "nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 3)",
        "nn.Linear(10, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 3)",
    ),
)


def test_rounding_that_a_free_run_amplifies_is_settled_step_by_step(check: Callable[..., Verdict]) -> None:
    """Four rows under BatchNorm at a high rate: a difference of 5e-11 grows. A factor that every step has is not settled."""
    before, after = (edited(text, *GROWING) for text in pair("mlp"))
    rounded = edited(after, (SHIFTED[0], SHIFTED[1].format(factor="(1.0 + 5e-11)")))
    verdict = check(before, rounded, float64=True, steps=12)
    assert verdict.status is Status.EQUAL, to_text(verdict)
    assert not verdict.free and "rounding that grew" in " ".join(verdict.notes), to_text(verdict)
    wrong = edited(after, (SHIFTED[0], SHIFTED[1].format(factor="(1.0 + 1e-8)")))
    verdict = check(before, wrong, float64=True, steps=12)
    assert (verdict.status, verdict.cause) == (Status.DIFFERENT, "loss"), to_text(verdict)
