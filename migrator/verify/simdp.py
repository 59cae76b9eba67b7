"""torch's own DataParallel on simulated devices: only the device primitives below it are replaced.

In: the simulated devices and a `replica` context manager that is entered around each replica's forward.  Out: scatter,
replicate, gather and their gradients behave as on GPUs: true chunk sizes, only replica 0's buffers survive (it aliases the
module's), gradients are summed, python attributes are lost.  Replicas run one after another, or in threads when a module
waits for its siblings.  Never changes the DataParallel class itself.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.nn.parallel.data_parallel
import torch.nn.parallel.parallel_apply
import torch.nn.parallel.replicate
import torch.nn.parallel.scatter_gather

from .simdevices import CPU, Devices

# (replica, number of replicas, its inputs, its keyword arguments) -> entered around that replica's forward
Replica = Callable[[int, int, Any, Any], AbstractContextManager[None]]
# Names of torch.nn.parallel that are replaced here: a new torch is tested against this list first.
PRIVATE_NAMES = {
    "torch.nn.parallel.data_parallel": (
        "_get_available_device_type",
        "_get_all_device_indices",
        "_get_device_index",
        "_check_balance",
        "parallel_apply",
        "DataParallel",
        "data_parallel",
    ),
    "torch.nn.parallel.replicate": ("_get_device_index", "comm"),
    "torch.nn.parallel.scatter_gather": ("Scatter", "Gather"),
    "torch.nn.parallel._functions": ("Scatter", "Gather", "Broadcast", "ReduceAddCoalesced"),
    "torch.nn.parallel.parallel_apply": ("parallel_apply",),
}


class Broadcast(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, gpus: Sequence[int], *inputs: Any) -> Any:
        ctx.count = len(inputs)
        # Replica 0 aliases the module's own tensors, as the C++ broadcast does: its buffer updates are the ones kept.
        copies = [x if j == 0 else x.clone() for j in range(len(gpus)) for x in inputs]
        needed = list(ctx.needs_input_grad[1:]) * len(gpus)
        ctx.mark_non_differentiable(*(x for x, need in zip(copies, needed, strict=True) if not need))
        return tuple(copies)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None, *(_total([g for g in grads[i :: ctx.count] if g is not None]) for i in range(ctx.count)))


def _total(tensors: Sequence[Any]) -> Any:
    if not tensors:
        return None
    total = tensors[0]
    for tensor in tensors[1:]:
        total = total + tensor
    return total


class Scatter(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, gpus: Sequence[int], sizes: Sequence[int] | None, dim: int, x: Any) -> Any:
        ctx.dim = dim
        x = x.as_subclass(torch.Tensor)  # the copies that are made in C++ are of no class of the program's
        chunks = x.chunk(len(gpus), dim) if sizes is None else x.split(list(sizes), dim)
        return tuple(chunk.clone() for chunk in chunks)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, None, None, torch.cat(grads, ctx.dim)


class Gather(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, target: Any, dim: int, *inputs: Any) -> Any:
        ctx.dim = dim
        ctx.scalars = dim == 0 and all(x.dim() == 0 for x in inputs)
        if ctx.scalars:
            inputs = tuple(x.view(1) for x in inputs)
            warnings.warn(
                "Was asked to gather along dimension 0, but all input tensors were scalars; will instead unsqueeze and"
                " return a vector.",
                stacklevel=2,
            )
        ctx.sizes = [x.size(dim) for x in inputs]
        return torch.cat(inputs, dim)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        parts = grad.split(ctx.sizes, ctx.dim)
        return (None, None, *(part[0] if ctx.scalars else part for part in parts))


class ReduceAddCoalesced(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, destination: Any, count: int, *grads: Any) -> Any:
        ctx.copies, ctx.count = len(grads) // count, count
        return tuple(_total(grads[i::count]) for i in range(count))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None, None, *(g.clone() for _ in range(ctx.copies) for g in grads))


def _broadcast_coalesced(tensors: Sequence[Any], devices: Sequence[Any], *_: Any) -> list[list[Any]]:
    return [list(tensors) if j == 0 else [x.clone() for x in tensors] for j in range(len(devices))]


def waits_for_siblings(module: Any) -> bool:
    """Whether some layer synchronises the replicas of one process (vendored SyncBN): they must run at the same time."""
    return any(hasattr(m, "_sync_master") or hasattr(m, "_slave_pipe") for m in module.modules())


def install(devices: Devices, replica: Replica) -> None:
    """Replace the primitives below torch's DataParallel in this process."""
    data_parallel: Any = sys.modules["torch.nn.parallel.data_parallel"]
    scatter_gather: Any = sys.modules["torch.nn.parallel.scatter_gather"]
    functions: Any = sys.modules["torch.nn.parallel._functions"]
    replicate: Any = sys.modules["torch.nn.parallel.replicate"]

    def device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
        index = devices.index(device)
        return devices.check(devices.current if index is None else index)

    data_parallel._get_available_device_type = lambda: "cuda"
    data_parallel._get_all_device_indices = lambda: list(range(devices.count))
    data_parallel._check_balance = lambda device_ids: None
    data_parallel._get_device_index = device_index
    replicate._get_device_index = device_index
    replicate.comm.broadcast_coalesced = _broadcast_coalesced
    scatter_gather.Scatter, scatter_gather.Gather = Scatter, Gather
    functions.Scatter, functions.Gather, functions.Broadcast = Scatter, Gather, Broadcast
    functions.ReduceAddCoalesced = ReduceAddCoalesced

    def parallel_apply(
        modules: Sequence[Any], inputs: Sequence[Any], kwargs_tup: Any = None, devices: Any = None
    ) -> list[Any]:
        return _apply(all_devices, replica, modules, inputs, kwargs_tup or ({},) * len(modules), devices)

    all_devices = devices
    modules: tuple[Any, ...] = (data_parallel, torch.nn.parallel, sys.modules["torch.nn.parallel.parallel_apply"])
    for module in modules:
        module.parallel_apply = parallel_apply

    wrapper = data_parallel.DataParallel
    init, forward = wrapper.__init__, wrapper.forward

    def patched_init(self: Any, *arguments: Any, **keywords: Any) -> None:
        init(self, *arguments, **keywords)
        self.src_device_obj = CPU

    def patched_forward(self: Any, *inputs: Any, **keywords: Any) -> Any:
        # torch calls the module itself when there is one device: still a call of the wrapped model.
        if len(self.device_ids) != 1:
            return forward(self, *inputs, **keywords)
        with devices.on(self.device_ids[0]), replica(0, 1, inputs, keywords):
            return forward(self, *inputs, **keywords)

    wrapper.__init__, wrapper.forward = patched_init, patched_forward

    def functional(
        module: Any,
        inputs: Any,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        module_kwargs: Any = None,
    ) -> Any:
        wrapped = wrapper(module, device_ids, output_device, dim)
        return wrapped(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))

    data_parallel.data_parallel = functional
    torch.nn.parallel.data_parallel = functional


def _apply(
    devices: Devices,
    replica: Replica,
    modules: Sequence[Any],
    inputs: Sequence[Any],
    keywords: Sequence[Any],
    device_ids: Sequence[Any] | None,
) -> list[Any]:
    """Run each replica on its device; the first exception is raised as it is, so that the traceback is the program's."""
    devices.census["DataParallel replicas", len(modules)] += 1
    places = [devices.index(d) if device_ids else i for i, d in enumerate(device_ids or modules)]

    def run(i: int) -> Any:
        given = inputs[i] if isinstance(inputs[i], (list, tuple)) else (inputs[i],)
        with devices.on(places[i]), replica(i, len(modules), given, keywords[i]):
            return modules[i](*given, **keywords[i])

    if len(modules) > 1 and waits_for_siblings(modules[0]):
        devices.census["DataParallel in threads", len(modules)] += 1
        return _in_threads(run, len(modules))
    return [run(i) for i in range(len(modules))]


def _in_threads(run: Callable[[int], Any], count: int) -> list[Any]:
    results: list[Any] = [None] * count
    errors: list[BaseException | None] = [None] * count
    grad = torch.is_grad_enabled()

    def body(i: int) -> None:
        try:
            with torch.set_grad_enabled(grad):
                results[i] = run(i)
        except BaseException as error:  # handed to the main thread, which raises it
            errors[i] = error

    threads = [threading.Thread(target=body, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        if error is not None:
            raise error
    return results
