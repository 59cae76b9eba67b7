"""Branches that wrap several models, in accelerate's form."""

from pathlib import Path

from codemods.options import Options
from migrator.convert.pipeline import convert_program

TWO = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    body, head = nn.Linear(4, 3), nn.Linear(3, 2)
    loader = DataLoader(TensorDataset(torch.randn(16, 4), torch.randint(2, (16,))), batch_size=8, shuffle=True)
    optimizer = torch.optim.SGD([{"params": body.parameters()}, {"params": head.parameters()}], lr=0.1)
    if torch.cuda.device_count() > 1:
        body = nn.DataParallel(body).to(device)
        head = nn.DataParallel(head).to(device)
    else:
        body = body.to(device)
        head = head.to(device)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(2):
        for inputs, targets in loader:
            loss = criterion(head(body(inputs.to(device))), targets.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""


def test_a_branch_that_only_wraps_two_models_goes_whole(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TWO)
    result = convert_program(Path("train.py"), Options(target="accelerate"))
    text = next(change.after for change in result.changes if change.path.endswith("train.py"))
    assert not result.questions and "DataParallel" not in text and "device_count" not in text
    assert "    body, head, optimizer, loader = accelerator.prepare(body, head, optimizer, loader)\n" in text
    assert "pass\n" not in text
