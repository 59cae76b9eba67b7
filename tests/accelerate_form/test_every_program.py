"""The programs of the other tests in accelerate's form: each trains as its original, on as many processes as were started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from migrator.verify import ForkServer, Status, VerifyRequest, to_text, verify

from .conftest import convert
from .table import WANTED, Result, Subject, examine, subjects

SUBJECTS = list(subjects())
FIRST = ("h05_", "h09_", "h10_", "h31_", "h42_")  # in every test run
# What differs, and why that is no fault of the conversion; anything else that is not EQUAL fails.
INHERENT = {
    "h76_chosen_gpus": "its DataParallel names two devices",
    "h14_very_few_samples": "DataParallel itself uses 2 of 4 devices, so that there is nothing to compare with",
}


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[ForkServer]:
    all_programs = any(item.get_closest_marker("long") for item in request.session.items)
    more = ("torchvision", "torch.utils.tensorboard") if all_programs else ()
    with ForkServer(preload=("numpy", *more, "accelerate")) as server:
        yield server


def check(result: Result) -> None:
    texts = [to_text(v) for v in result.verdicts.values() if v.status is not Status.EQUAL]
    assert result.is_equal, result.alone + "\n".join(texts)
    assert result.is_counted, result.processes


@pytest.mark.parametrize("subject", [s for s in SUBJECTS if s.name.startswith(FIRST)], ids=lambda s: s.name)
def test_it_trains_the_same_on_two_processes(subject: Subject, tmp_path: Path, server: ForkServer) -> None:
    check(examine(subject, tmp_path, server, (2,)))


@pytest.mark.long
@pytest.mark.parametrize("subject", [s for s in SUBJECTS if not s.asks], ids=lambda s: s.name)
def test_it_runs_alone_and_trains_the_same_on_two_and_four(
    subject: Subject, tmp_path: Path, server: ForkServer
) -> None:
    result = examine(subject, tmp_path, server, (1, 2, 4))
    if subject.name in INHERENT:
        assert result.verdicts[2].status is Status.EQUAL and not result.is_equal
    else:
        check(result)


@pytest.mark.long
@pytest.mark.parametrize("name", ["h09_validation_counts_once", "h40_batch_norm", "h27_contrastive_loss", "own_engine"])
def test_over_the_ddp_form_it_trains_the_same(name: str, tmp_path: Path, server: ForkServer) -> None:
    subject = next(s for s in SUBJECTS if s.name == name)
    check(examine(subject, tmp_path, server, (2,), over_ddp=True))


def test_enough_of_them_are_equal() -> None:
    """The long tests hold all others to EQUAL; these are the ones that are not."""
    others = [s for s in SUBJECTS if s.asks or s.name in INHERENT]
    assert len(others) <= (1 - WANTED) * len(SUBJECTS)


STATISTICS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(28, 6), torch.randint(3, (28,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).cuda())
    criterion = nn.CrossEntropyLoss(reduction="sum")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(2):
        for x, y in loader:
            loss = criterion(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""


def test_batch_norm_that_sees_what_fills_a_batch_up_is_an_inherent_difference(
    tmp_path: Path, server: ForkServer
) -> None:
    before, after = tmp_path / "before" / "train.py", tmp_path / "after"
    before.parent.mkdir()
    before.write_text(STATISTICS)
    assert convert(after, STATISTICS).way == "distributed"
    verdict = verify(VerifyRequest(before, after, devices=2, float64=True, timeout=120, cwd=before.parent), server)
    assert verdict.status is Status.EQUAL, to_text(verdict)
    assert any("which BatchNorm sees" in note for note in verdict.notes)
    assert [row.compared for row in verdict.rows].count(False) == 1, to_text(verdict)
    (after / "train.py").write_text((after / "train.py").read_text().replace('reduction="sum"', 'reduction="mean"'))
    verdict = verify(VerifyRequest(before, after, devices=2, float64=True, timeout=120, cwd=before.parent), server)
    assert verdict.status is Status.DIFFERENT
