"""A loader on the top level of an imported module is made before the processes have met: it cannot know its share."""

from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.pipeline import convert_program

SOURCES = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

STARS = TensorDataset(torch.arange(48.0).view(16, 3), torch.arange(16) % 2)
TRAINING = DataLoader(STARS, batch_size=8, shuffle=True)
"""
PROGRAM = """\
import torch
from torch import nn
{start}


def main():
    model = nn.DataParallel(nn.Linear(3, 2)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in {loader}:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("start", "loader"),
    [
        ("from sources import TRAINING", "TRAINING"),
        ("from sources import TRAINING as batches", "batches"),
        ("import sources", "sources.TRAINING"),
        ("from sources import *", "TRAINING"),
    ],
)
def test_a_loader_that_is_made_on_import_keeps_the_batch_whole(
    start: str, loader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sources.py").write_text(SOURCES)
    (tmp_path / "train.py").write_text(PROGRAM.format(start=start, loader=loader))
    conversion = convert_program(Path("train.py"), Options())
    assert conversion.way == "call", conversion.reason
    assert "sources.py" not in {change.path for change in conversion.changes}
