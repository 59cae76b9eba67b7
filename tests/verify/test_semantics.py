"""The simulated DataParallel behaves as torch documents it on GPUs; the private names it needs are still there."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from migrator.verify import ForkServer, VerifyRequest, record_before

PROGRAM = Path(__file__).parent / "semantics_program.py"
NAMES = [
    node.name
    for node in ast.parse(PROGRAM.read_text()).body
    if isinstance(node, ast.FunctionDef) and any(getattr(d, "id", "") == "check" for d in node.decorator_list)
]


@pytest.fixture(scope="module")
def answers(server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("semantics")
    (folder / "program.py").write_text(PROGRAM.read_text())
    recording = record_before(VerifyRequest(folder / "program.py", cwd=folder, devices=4, timeout=120.0), server)
    lines = [line.split(" ", 1) for line in recording.log.splitlines() if line.startswith(("ok ", "no "))]
    return {name.strip(): answer for answer, name in lines} | {"log": recording.log}


def test_there_are_45_checks() -> None:
    assert len(NAMES) >= 45


@pytest.mark.parametrize("name", NAMES)
def test_as_on_gpus(answers: dict[str, str], name: str) -> None:
    assert answers.get(name) == "ok", answers["log"]


def test_the_private_names_of_torch_are_there() -> None:
    from migrator.verify import simdp

    missing = [
        f"{module}.{name}"
        for module, names in simdp.PRIVATE_NAMES.items()
        for name in names
        if not hasattr(importlib.import_module(module), name)
    ]
    import torch
    import torch._dynamo
    import torch.utils._device
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim import optimizer
    from torch.utils.data import dataloader
    from torch.utils.data._utils import fetch

    for owner, name in (
        (torch.utils._device, "_device_constructors"),
        (torch.utils._device, "DeviceContext"),
        (torch.serialization, "register_package"),
        (optimizer, "register_optimizer_step_pre_hook"),
        (optimizer, "register_optimizer_step_post_hook"),
        (dataloader._BaseDataLoaderIter, "_next_index"),
        (dataloader._BaseDataLoaderIter, "_reset"),
        (dataloader, "_DatasetKind"),
        (fetch, "_MapDatasetFetcher"),
        (DistributedDataParallel, "_passing_sync_batchnorm_handle"),
        (DistributedDataParallel, "_distributed_broadcast_coalesced"),
        (torch.nn.Module, "_replicate_for_data_parallel"),
        (torch.amp.autocast_mode, "autocast"),
        (torch._C, "TensorBase"),
    ):
        if not hasattr(owner, name):
            missing.append(f"{owner.__name__}.{name}")
    assert missing == []
