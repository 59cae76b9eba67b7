"""The command line in this process, and programs to give to it."""

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from migrator.__main__ import main

PROGRAM = """\
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    data = TensorDataset(torch.randn(64, 4), torch.randint(2, (64,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        for inputs, targets in loader:
            loss = criterion(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
"""
# Nobody can tell what kind of thing this wrapper is: a person must look.
ASKS = PROGRAM.replace(
    "from torch import nn", "from torch import nn\nfrom elsewhere import BalancedDataParallel"
).replace("    criterion =", "    other = BalancedDataParallel(model)\n    criterion =")
PLAIN = "print('no training here')\n"


@dataclass(frozen=True)
class Done:
    code: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        return self.stdout.decode()


@pytest.fixture
def cli(monkeypatch, capsysbinary, tmp_path) -> Callable[..., Done]:
    """Run `mgmigrate` in an empty folder; no traceback ever reaches the user."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object, stdin: bytes | None = None) -> Done:
        monkeypatch.setattr(sys, "argv", ["mgmigrate", *map(str, words)])
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsysbinary.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsysbinary.readouterr()
        stderr = captured.err.decode()
        assert "Traceback" not in stderr
        assert "internal error" not in stderr, stderr
        return Done(stop.value.code or 0, captured.out, stderr)

    return run


@pytest.fixture
def train(tmp_path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return path
