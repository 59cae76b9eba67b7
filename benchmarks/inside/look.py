"""What a process shows of itself: what decides how much a step costs, versions, memory.

In: an optimizer, device numbers.  Out: plain data for the rank's document; what is not known is None.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import torch


def describe_work(optimizer: torch.optim.Optimizer, cuda: bool) -> dict[str, Any]:
    """What decides how much a step costs, as far as the process shows it."""
    parameters = [p for group in optimizer.param_groups for p in group["params"] if isinstance(p, torch.Tensor)]
    kernels = [p for p in parameters if p.dim() == 4 and p.shape[1] > 1 and p.shape[2] > 1]
    last = [p.is_contiguous(memory_format=torch.channels_last) for p in kernels]
    tf32 = None
    if cuda:
        with contextlib.suppress(Exception):
            tf32 = bool(torch.backends.cuda.matmul.allow_tf32)
    return {
        "optimizer": type(optimizer).__name__,
        "dtype": str(parameters[0].dtype).removeprefix("torch.") if parameters else None,
        "channels_last": bool(last) and all(last) if kernels else None,
        "tf32": tf32,
        "parameters": sum(p.numel() for p in parameters),
        "threads": torch.get_num_threads(),
        "device": str(parameters[0].device) if parameters else None,
    }


def read_versions(cuda: bool) -> dict[str, str | None]:
    found: dict[str, str | None] = {"torch": torch.__version__}
    if cuda:
        found["cuda"] = torch.version.cuda
        with contextlib.suppress(Exception):
            found["cudnn"] = str(torch.backends.cudnn.version())
        with contextlib.suppress(Exception):
            found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return found


def read_memory(devices: list[int], rank: int) -> list[dict[str, Any]]:
    """Peaks of each CUDA device since the windows opened; of the process where there are none."""
    found = []
    for device in devices:
        properties = torch.cuda.get_device_properties(device)
        found.append(
            {
                "device": f"cuda:{device}",
                "uuid": str(getattr(properties, "uuid", "")),
                "allocated": torch.cuda.max_memory_allocated(device),
                "reserved": torch.cuda.max_memory_reserved(device),
                "used": None,
                "total": properties.total_memory,
            }
        )
    if not devices:
        with contextlib.suppress(ImportError):
            import resource

            unit = 1 if sys.platform == "darwin" else 1024
            used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
            found.append(
                {
                    "device": f"process {rank}",
                    "uuid": "",
                    "allocated": None,
                    "reserved": None,
                    "used": used,
                    "total": None,
                }
            )
    return found
