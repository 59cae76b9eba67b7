"""A batch size that is used for something else than loading would there mean the size of one process's batches."""

import pytest

from tests.rules.tools import convert

PROGRAM = """\
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", default="16")
    args = parser.parse_args()
    {above}
    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    loader = DataLoader(data, batch_size=size, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 1).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            {backward}
            optimizer.step()


if __name__ == "__main__":
    main()
"""


def way(above: str = "size = int(args.size)", backward: str = "loss.backward()") -> str:
    return convert(PROGRAM.format(above=above, backward=backward)).way


@pytest.mark.parametrize(
    "above", ["size = args.size", "size = int(args.size)", "args.size = int(args.size)\n    size = args.size"]
)
def test_a_size_that_is_only_given_its_name_and_kind_is_that_of_the_loader(above):
    assert way(above) == "distributed"


@pytest.mark.parametrize(
    ("above", "backward"),
    [
        ("size = int(args.size)", "(loss / int(args.size)).backward()"),
        ("size = int(args.size)", "(loss / size).backward()"),
        ("size = int(args.size)\n    number = int(args.size)", "(loss / number).backward()"),
    ],
)
def test_the_batch_stays_whole_where_its_size_is_used(above, backward):
    assert way(above, backward) == "call"
