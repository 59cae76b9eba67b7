"""Methods of the bare network that only switch layers leave no gradients behind; functions that nobody calls freeze nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from codemods.options import Options
from migrator.convert.pipeline import convert_program
from migrator.load.source import Source
from migrator.verify import ForkServer

from .test_not_way_one import BATCHES, FORWARD, Edit, edited
from .trained import check_equal

METHOD = """
    def keep_statistics(self):
        for layer in self.modules():
            if isinstance(layer, nn.BatchNorm1d):
                layer.eval()
"""
NORM: Edit = (
    "        self.body = nn.Linear(8, 16)\n",
    "        self.body = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16))\n",
)
SWITCHED: Edit = (BATCHES, "        model.train()\n        model.module.keep_statistics()\n")


def method(text: str = METHOD) -> Edit:
    return FORWARD, FORWARD + text


def way(*changes: Edit) -> tuple[str, str]:
    conversion = convert_program(Path("train.py"), Options(), Source("train.py", edited(*changes)))
    return conversion.way, conversion.reason


def test_layers_that_are_switched_past_the_wrapper_take_nothing_from_the_exchange() -> None:
    assert way(NORM, method(), SWITCHED)[0] == "distributed"


@pytest.mark.parametrize(
    "line",
    [
        "layer(torch.zeros(2, 16))",
        "layer.reset_running_stats()",
        "layer.weight.requires_grad = False",
        "nn.init.zeros_(layer.weight)",
    ],
)
def test_a_method_that_does_more_is_none_of_them(line: str) -> None:
    chosen, reason = way(NORM, method(METHOD.replace("layer.eval()", line)), SWITCHED)
    assert chosen == "call" and "past its wrapper" in reason, reason


UNUSED: Edit = (
    "def main():\n",
    "def freeze(net):\n    for p in net.parameters():\n        p.requires_grad = False\n\n\ndef main():\n",
)
OTHER = "class Settings:\n    def __init__(self, inner):\n        self.inner = inner\n\n    def close(self):\n        self.inner.freeze()\n\n\n"
CLASS: Edit = ("class Net(", OTHER + "class Net(")


def test_a_function_that_only_shares_its_name_with_a_method_is_not_called() -> None:
    assert way(UNUSED, CLASS)[0] == "distributed"


@pytest.mark.parametrize("use", ["freeze(model.module.head)", "act = freeze", 'globals()["freeze"](model)'])
def test_a_function_that_may_be_called_freezes(use: str) -> None:
    chosen, reason = way(UNUSED, CLASS, (BATCHES, f"        {use}\n"))
    assert chosen == "call" and "frozen or released" in reason, reason


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer(preload=("numpy", "accelerate")) as server:
        yield server


@pytest.mark.parametrize("target", ["ddp", "accelerate"])
def test_it_trains_the_same(
    target: Literal["ddp", "accelerate"], tmp_path: Path, server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_equal(edited(NORM, method(), SWITCHED), tmp_path, server, monkeypatch, options=Options(target=target))
