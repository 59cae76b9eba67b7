"""The split in one process: without a process group, and in a group of one."""

import json
import traceback
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from codemods.templates.split_data_parallel import SplitDataParallel


def check_one_process() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Dropout(0.5))
    split = SplitDataParallel(model)
    x = torch.randn(5, 3)
    torch.manual_seed(1)
    expected = model(x)
    torch.manual_seed(1)
    assert torch.equal(split(x), expected), "one process calls the module itself"
    assert torch.equal(split(input=x.clone()).detach().isnan(), torch.zeros(5, 2, dtype=torch.bool))
    split(x).sum().backward()
    assert model[0].weight.grad is not None
    scalar = SplitDataParallel(nn.MSELoss())(x, x)
    assert scalar.shape == (), "a number stays a number"
    assert next(iter(split.state_dict())) == "module.0.weight"


def run(result: Path) -> None:
    error = ""
    try:
        check_one_process()
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        check_one_process()
    except BaseException:
        error = traceback.format_exc()
    result.write_text(json.dumps({"error": error}))
