"""Process groups on one machine without a GPU: NCCL becomes gloo, ports become a file, and every wait ends.

In: the simulated devices, a folder for the rendezvous file, the seconds that one collective may take.  Out:
`init_process_group`, `barrier`, DistributedDataParallel's device arguments and SyncBatchNorm patched in this process.
Never touches gradients or the order of collectives.
"""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d
import torch.distributed.nn.functional
import torch.nn.parallel

from .simdevices import Devices


def install(devices: Devices | None, folder: Path, timeout: float) -> None:
    _patch_groups(folder, datetime.timedelta(seconds=timeout))
    _patch_ddp(devices)
    _patch_sync_batch_norm()


def _patch_groups(folder: Path, timeout: datetime.timedelta) -> None:
    init, barrier, new_group = dist.init_process_group, dist.barrier, dist.new_group
    created = 0

    def init_process_group(backend: Any = None, init_method: Any = None, *arguments: Any, **keywords: Any) -> None:
        nonlocal created
        names = ("timeout", "world_size", "rank", "store", "group_name", "pg_options", "device_id")
        keywords.update(zip(names, arguments, strict=False))
        keywords.pop("device_id", None)
        keywords.pop("pg_options", None)
        keywords["timeout"] = timeout
        if keywords.get("store") is None:
            # A file instead of a port: nothing to collide with, nothing to leave behind.
            for name, variable in (("world_size", "WORLD_SIZE"), ("rank", "RANK")):
                if keywords.get(name, -1) in (-1, None):
                    keywords[name] = int(os.environ[variable])
            keywords["store"] = dist.FileStore(str(folder / f"rendezvous.{created}"), keywords["world_size"])
            created += 1
        init("gloo", **keywords)

    def patched_barrier(*arguments: Any, **keywords: Any) -> Any:
        keywords.pop("device_ids", None)
        return barrier(*arguments, **keywords)

    def patched_new_group(ranks: Any = None, *arguments: Any, **keywords: Any) -> Any:
        names = ("timeout", "backend", "pg_options")
        keywords.update(zip(names, arguments, strict=False))
        keywords.pop("device_id", None)
        keywords.pop("pg_options", None)
        return new_group(ranks, **{**keywords, "timeout": timeout, "backend": "gloo"})

    for module in (dist, dist.distributed_c10d):
        module.init_process_group = init_process_group
        module.new_group = patched_new_group
        module.barrier = patched_barrier
    dist.is_nccl_available = lambda: True
    _patch_gather()


def _patch_gather() -> None:
    """NCCL gathers into a tensor of any shape with the right number of elements; gloo wants one shape."""
    all_gather = dist.all_gather

    def all_gather_into_tensor(output: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Any:
        rows = list(output.view(dist.get_world_size(group), -1))
        return all_gather(rows, tensor.contiguous().view(-1), group, async_op)

    for name in ("all_gather_into_tensor", "_all_gather_base", "all_gather_single"):
        for module in (dist, dist.distributed_c10d):
            if hasattr(module, name):
                setattr(module, name, all_gather_into_tensor)


def _patch_ddp(devices: Devices | None) -> None:
    wrapper = torch.nn.parallel.DistributedDataParallel
    init = wrapper.__init__

    def patched(
        self: Any, module: Any, device_ids: Any = None, output_device: Any = None, *arguments: Any, **keywords: Any
    ) -> None:
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        if devices is not None and device_ids:
            index = devices.index(device_ids[0])
            if index is not None:
                devices.census["DistributedDataParallel", devices.check(index)] += 1
        init(self, module, None, None, *arguments, **keywords)

    wrapper.__init__ = patched
    wrapper._passing_sync_batchnorm_handle = lambda self, module: None


def _patch_sync_batch_norm() -> None:
    """SyncBatchNorm refuses CPU tensors: the same sums, by all-reduce."""

    def forward(self: Any, x: Any) -> Any:
        active = self.training or self.running_mean is None
        if not (active and dist.is_initialized() and dist.get_world_size() > 1):
            momentum = self.momentum if self.momentum is not None else 0.0
            return torch.nn.functional.batch_norm(
                x, self.running_mean, self.running_var, self.weight, self.bias, active, momentum, self.eps
            )
        channels = x.size(1)
        axes = [0, *range(2, x.dim())]
        local = torch.cat([x.sum(axes), (x * x).sum(axes), x.new_full((1,), x.numel() / channels)])
        total = dist.nn.functional.all_reduce(local)
        count = total[-1]
        mean = total[:channels] / count
        variance = total[channels:-1] / count - mean * mean
        if self.training and self.track_running_stats:
            with torch.no_grad():
                self.num_batches_tracked += 1
                weight = self.momentum if self.momentum is not None else 1.0 / float(self.num_batches_tracked)
                self.running_mean.lerp_(mean.detach(), weight)
                self.running_var.lerp_(variance.detach() * count / (count - 1), weight)
        shape = [1, -1] + [1] * (x.dim() - 2)
        y = (x - mean.view(shape)) * torch.rsqrt(variance + self.eps).view(shape)
        return y if self.weight is None else y * self.weight.view(shape) + self.bias.view(shape)

    torch.nn.SyncBatchNorm.forward = forward
