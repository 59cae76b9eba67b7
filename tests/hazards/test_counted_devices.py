"""A model that is wrapped where there are several devices is wrapped where there are several processes, whatever counts them."""

from __future__ import annotations

from pathlib import Path

import pytest

from codemods.options import Options
from migrator.verify import ForkServer

from .test_not_way_one import edited
from .test_own_branches import convert
from .test_whole_batch import server
from .trained import check_equal

__all__ = ["server"]

WRAP = "    model = nn.DataParallel(Net()).cuda()\n"
IDS = "    ids = list(range(torch.cuda.device_count()))\n    model = Net().cuda()\n"


def wrapped(test: str, ids: str, above: str = "") -> tuple[str, str]:
    return WRAP, f"{IDS}{above}    if {test}:\n        model = nn.DataParallel(model, device_ids={ids})\n"


@pytest.mark.parametrize(
    ("test", "ids"),
    [
        ("len(ids) > 1", "ids"),
        ("len(ids) >= 2", "ids"),
        ("n > 1", "range(n)"),
        ("n > 1", "list(range(n))"),
    ],
)
def test_a_test_of_how_many_the_wrap_is_over_is_one_of_the_devices(
    test: str, ids: str, tmp_path: Path, monkeypatch
) -> None:
    conversion = convert(tmp_path, monkeypatch, wrapped(test, ids, "    n = len(ids)\n"))
    assert conversion.way == "distributed" and not conversion.questions, conversion.reason
    assert f"if {test}" not in conversion.changes[0].after


@pytest.mark.parametrize(
    ("test", "ids"),
    [
        ("len(names) > 1", "ids"),
        ("len(ids) > 2", "ids"),
        ("len(ids) > 1 and args.epochs > 2", "ids"),
        ("n > 1", "ids[:n]"),
        ("n > 1", "range(2, n)"),
        ("n < 2", "range(n)"),
    ],
)
def test_another_test_may_leave_the_model_bare(test: str, ids: str, tmp_path: Path, monkeypatch) -> None:
    above = "    n, names = args.epochs, sorted([1, 2])\n"
    conversion = convert(tmp_path, monkeypatch, wrapped(test, ids, above))
    assert conversion.way == "call" and test in conversion.reason, conversion.reason


@pytest.mark.parametrize("target", ["ddp", "accelerate"])
def test_trains_the_same_on_two_devices(target, tmp_path: Path, server: ForkServer, monkeypatch) -> None:
    text = edited(wrapped("len(ids) > 1", "ids"))
    check_equal(text, tmp_path, server, monkeypatch, options=Options(target=target))
