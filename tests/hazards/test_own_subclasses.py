"""Subclasses of DataParallel that a program has written: what they add to it is kept, what they do otherwise is asked about."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.verify import ForkServer
from tests.rules.tools import check_question, check_rewrite

from .trained import check_equal

WAY_THROUGH = """\
class Through(nn.DataParallel):
    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__(module, device_ids, output_device, dim)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.module, name)

    def score(self, x):
        return self.forward(x).square()
"""
PROGRAM = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inside = nn.Linear(6, 3)
        self.weight_of_loss = 0.5

    def forward(self, x):
        return self.inside(x)


{subclass}

if __name__ == "__main__":
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(40, 6)), batch_size=8)
    model = {wrap}
    optimizer = torch.optim.SGD(model.inside.parameters(), lr=0.1)
    for (x,) in loader:
        loss = model.score(x).mean() * model.weight_of_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
WRAP = "Through(Net().cuda(), device_ids=list(range(torch.cuda.device_count())))"


def program(subclass: str = WAY_THROUGH, wrap: str = WRAP) -> str:
    return PROGRAM.format(subclass=subclass, wrap=wrap)


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer() as one:
        yield one


def test_a_class_that_only_adds_goes_on_with_another_base():
    done = check_rewrite(
        program(),
        """
        class Through(SplitDataParallel):
            def __init__(self, module, device_ids=None, output_device=None, dim=0):
                super().__init__(module, dim=dim)
        """,
        "MG302",
    )
    assert "model = Through(Net().cuda())" in done.changes[0].after
    assert not [d for d in done.diagnostics if "shares" in d.message and d.rule == "MG302"]


def test_a_test_for_a_class_that_goes_on_stays():
    text = program().replace("    loss.backward()", "    loss.backward()\n        assert isinstance(model, Through)")
    assert (
        "isinstance(model, Through)"
        in check_rewrite(text, "class Through(SplitDataParallel):", "MG302").changes[0].after
    )


@pytest.mark.parametrize("target", ["ddp", "accelerate"])
def test_what_a_class_adds_trains_as_before(target, tmp_path: Path, server, monkeypatch):
    check_equal(program(), tmp_path, server, monkeypatch, options=Options(target=target))


@pytest.mark.parametrize(
    ("method", "named"),
    [
        ("    def scatter(self, inputs, kwargs, ids):\n        return [(x[:1],) for x in inputs], kwargs\n", "scatter"),
        ("    def __init__(self, parts, *args):\n        super().__init__(*args)\n", "__init__"),
    ],
)
def test_a_class_that_also_does_something_otherwise_is_asked_about(method, named):
    own = (
        WAY_THROUGH[: WAY_THROUGH.index("    def __init__")]
        + method
        + WAY_THROUGH[WAY_THROUGH.index("    def __getattr__") :]
    )
    check_question(program(own, "Through(Net())"), named, "MG302")


def test_the_moves_behind_a_wrap_in_a_choice_stay():
    text = program("", "nn.DataParallel(Net()).cuda() if torch.cuda.device_count() > 1 else Net().cuda()")
    text = (
        text.replace("model.score(x)", "model(x)")
        .replace(" * model.weight_of_loss", "")
        .replace("model.inside", "model")
    )
    done = check_rewrite(text, "    model = SplitDataParallel(Net()).cuda()", "MG302", sampling="call")
    assert not done.questions
