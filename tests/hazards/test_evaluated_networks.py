"""What is evaluated beside the wrapped model: copies that follow it, the network inside it, and others.

A moving average has batch norm statistics of its own on each process; only rank 0's are those of DataParallel.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.pipeline import convert_program
from migrator.verify import ForkServer, Status, VerifyRequest, to_text, verify
from migrator.write.files import encoded
from tests.rules.tools import check_noop, check_rewrite

PROGRAM = """\
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Average:
    def __init__(self, model):
        self.network = copy.deepcopy(model.module).eval()

    @torch.no_grad()
    def update(self, model):
        for old, new in zip(self.network.state_dict().values(), model.module.state_dict().values()):
            if old.is_floating_point():
                old.mul_(0.9).add_(new, alpha=0.1)


def validate(loader, model):
    model.eval()
    correct, total = 0, 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x.cuda()).argmax(1).cpu() == y).sum().item()
            total += y.size(0)
    return correct / total


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(48, 8), torch.randint(3, (48,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    test_loader = DataLoader(TensorDataset(torch.randn(22, 8), torch.randint(3, (22,))), batch_size=8)
    model = nn.DataParallel(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))).cuda()
    average = Average(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        model.train()
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            average.update(model)
        print(validate(test_loader, model))
        print(validate(loader=test_loader, model=average.network))


if __name__ == "__main__":
    main()
"""
BOTH = "        print(validate(loader=test_loader, model=average.network))\n"
WRITTEN = """\
        with open("guesses.txt", "w") as file:
            for x, y in test_loader:
                file.write(str(average.network(x.cuda()).argmax(1).tolist()))
"""
SYNC = "sync_buffers(model)\nfor x, y in loader:"


def test_a_function_that_evaluates_the_model_and_its_average_stays_whole():
    conversion = check_rewrite(PROGRAM, SYNC, "MG702")
    assert conversion.way == "distributed"
    after = conversion.changes[0].after
    assert "model.module(x.cuda())" not in after and "own_share(" not in after


def test_the_model_alone_is_still_evaluated_in_shares():
    conversion = check_rewrite(PROGRAM.replace(BOTH, ""), SYNC, "MG702")
    assert "(model.module(x.cuda())" in conversion.changes[0].after


@pytest.mark.parametrize("network", ["average.network", "model.module"])
def test_an_average_alone_has_statistics_of_rank_zero(network: str):
    text = PROGRAM.replace("        print(validate(test_loader, model))\n", "").replace(
        "average.network)", f"{network})"
    )
    assert "model.module(x" not in check_rewrite(text, SYNC, "MG702").changes[0].after


def test_nothing_waits_where_one_process_writes():
    check_noop(PROGRAM.replace("        print(validate(test_loader, model))\n" + BOTH, WRITTEN), "MG702")


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer(preload=("numpy",)) as server:
        yield server


def test_an_average_is_evaluated_as_before(server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    before, after = tmp_path / "before", tmp_path / "after"
    for folder in (before, after):
        folder.mkdir()
        (folder / "train.py").write_text(PROGRAM.replace(BOTH, BOTH + WRITTEN))
    monkeypatch.chdir(after)
    for change in convert_program(Path("train.py"), Options()).changes:
        Path(change.path).write_bytes(encoded(change))
    request = VerifyRequest(before / "train.py", after, devices=2, timeout=120.0, cwd=before, float64=True)
    verdict = verify(request, server)
    assert verdict.status is Status.EQUAL, to_text(verdict)
