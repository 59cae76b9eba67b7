"""What runs in a pool, or in a process that the program starts, waits for none of the group's processes."""

import pytest

from tests.rules.tools import convert

PROGRAM = """\
from multiprocessing import Pool, Process
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def words(line):
    return list(set(line.split()))


def main():
    {run}
    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 1).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    "run",
    [
        "table = Pool(4).imap(words, open('lines.txt'))",
        "pool = Pool(4)\n    table = pool.map(words, open('lines.txt'))",
        "Process(target=words, args=('a b',)).start()",
    ],
)
def test_the_order_of_a_set_is_no_broadcast_there(run):
    conversion = convert(PROGRAM.format(run=run))
    assert "from_rank_zero" not in conversion.changes[0].after
    assert [d.rule for d in conversion.questions] == ["MG208"]


def test_in_the_processes_themselves_it_is():
    assert (
        "from_rank_zero(list(set(line.split())))"
        in convert(PROGRAM.format(run="table = words('a b')")).changes[0].after
    )
