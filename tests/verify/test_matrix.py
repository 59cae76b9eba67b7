"""Kinds of programs: each hand-made conversion is EQUAL, freely in float64 and resynchronised in float32."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from migrator.verify import Status, Verdict, to_text

from .programs import SPLIT_TEMPLATE, edited, pair

KINDS = ("mlp", "resnet", "bert", "accumulation", "gan", "trainer", "split")


def files(name: str) -> dict[str, str]:
    return {"split_data_parallel.py": SPLIT_TEMPLATE.read_text()} if name == "split" else {}


@pytest.mark.parametrize("float64", [False, True], ids=["float32", "float64"])
@pytest.mark.parametrize("name", KINDS)
def test_a_right_conversion_is_equal(check: Callable[..., Verdict], name: str, float64: bool) -> None:
    verdict = check(*pair(name), files(name), float64=float64)
    assert verdict.status is Status.EQUAL, to_text(verdict)
    limit = 1e-9 if float64 else 1e-5
    assert verdict.steps >= 4
    assert max(max(r.gradient, r.parameter, r.buffer, r.loss_difference) for r in verdict.rows) <= limit
    assert all(row.samples_before == row.samples_after > 0 for row in verdict.rows)


@pytest.mark.parametrize("name", ["mlp", "split"])
def test_four_devices(check: Callable[..., Verdict], name: str) -> None:
    verdict = check(*pair(name), files(name), devices=4)
    assert verdict.status is Status.EQUAL, to_text(verdict)


def test_the_check_reaches_the_second_epoch(check: Callable[..., Verdict]) -> None:
    before, after = pair("mlp")
    verdict = check(before, edited(after, ("    sampler.set_epoch(epoch)\n", "")))
    assert verdict.status is Status.DIFFERENT
    assert (verdict.cause, verdict.findings[0].step) == ("data", 4)
