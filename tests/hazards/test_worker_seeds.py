"""Workers that are seeded by a number of the program's own would augment the shares of a batch alike."""

import os
import threading
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.pipeline import convert_program
from tests.rules.tools import convert

PROGRAM = """\
import functools
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEED = 1


def asked(worker):
    seed = torch.initial_seed() % 2**32
    np.random.seed(seed + worker)


def counted(worker, seed=0):
    number = SEED + worker
    random.seed(number)


def reseed(number):
    torch.manual_seed(number)


def passed_on(worker):
    reseed(SEED + worker)


def main():
    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    loader = DataLoader(data, batch_size=16, shuffle=True, num_workers=2, worker_init_fn={given})
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


@pytest.mark.parametrize("target", ["ddp", "accelerate"])
@pytest.mark.parametrize(
    ("given", "way"),
    [
        ("counted", "call"),
        ("lambda worker: np.random.seed(SEED + worker)", "call"),
        ("functools.partial(counted, seed=2)", "call"),
        ("passed_on", "call"),
        ("np.somebody.elses", "call"),
        ("asked", "distributed"),
        ("lambda worker: np.random.seed(np.random.get_state()[1][0] + worker)", "distributed"),
        ("None", "distributed"),
    ],
)
def test_batches_are_shared_out_only_where_the_workers_of_each_process_draw_for_themselves(given, way, target):
    conversion = convert(PROGRAM.format(given=given), target=target)
    assert conversion.way == way, conversion.reason


def test_a_pipe_among_the_files_keeps_nobody_waiting(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(
        "import importlib, sys\nimportlib.import_module(sys.argv[1]).main()\n" + PROGRAM.format(given="None")
    )
    os.mkfifo("pipe.py")
    run = threading.Thread(target=convert_program, args=(Path("train.py"), Options()), daemon=True)
    run.start()
    run.join(60)
    assert not run.is_alive()
