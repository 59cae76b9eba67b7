"""A program that insists on a GPU, on a machine without one: what it asks of "cuda" is done on the CPU.

In: verify's `simcuda` module.  Out: this process patched for good: as many pretended devices as processes, DataParallel that passes
through, process groups over gloo, DistributedDataParallel without device numbers.  Arithmetic is never touched.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def install(simcuda: Any) -> None:
    devices = simcuda.install(int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    devices.current = int(os.environ.get("LOCAL_RANK", "0"))
    # torch.nn.parallel's attribute of the module's name is a function
    data_parallel: Any = sys.modules["torch.nn.parallel.data_parallel"]
    data_parallel._get_available_device_type = lambda: None  # as without a GPU
    dist.is_nccl_available = lambda: False
    join, wrap = dist.init_process_group, DistributedDataParallel.__init__

    def join_on_cpu(backend: str | None = None, *arguments: Any, **options: Any) -> None:
        options.pop("device_id", None)
        join("gloo", *arguments, **options)

    def wrap_on_cpu(
        self: Any,
        module: torch.nn.Module,
        device_ids: Any = None,
        output_device: Any = None,
        *rest: Any,
        **options: Any,
    ) -> None:
        wrap(self, module, None, None, *rest, **options)

    dist.init_process_group = dist.distributed_c10d.init_process_group = join_on_cpu
    DistributedDataParallel.__init__ = wrap_on_cpu
