"""torch's own DataParallel on devices that do not exist: its scatter, replicate and gather, with CPU copies between them.

The oracle of the split at the call. Only the transport is replaced; rules about structures, chunks, replicas and buffers
are those of the installed torch.
"""

import contextlib
import functools
import importlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.nn.parallel import scatter_gather

replicate_module = importlib.import_module("torch.nn.parallel.replicate")  # the package has a function of that name


class _Scatter:
    @staticmethod
    def apply(devices: list[int], sizes: None, dim: int, tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(chunk.clone() for chunk in tensor.chunk(len(devices), dim))


class _Gather:
    @staticmethod
    def apply(device: str, dim: int, *tensors: torch.Tensor) -> torch.Tensor:
        if dim == 0 and all(t.dim() == 0 for t in tensors):
            return torch.stack(tensors)
        return torch.cat(tensors, dim)


class _Broadcast(torch.autograd.Function):
    """One node for all parameters, so that those unused get zeros, as from DataParallel's own."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: torch.Tensor) -> Any:
        ctx.count = count
        copies = [t.view_as(t) if i == 0 else t.clone() for i in range(count) for t in tensors]
        frozen = [not needed for needed in ctx.needs_input_grad[1:]] * count
        ctx.mark_non_differentiable(*(c for c, f in zip(copies, frozen, strict=True) if f))
        return tuple(copies)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        width = len(grads) // ctx.count
        return None, *(functools.reduce(torch.add, grads[i::width]) for i in range(width))


def _broadcast(tensors: Any, devices: Any, detach: bool = False) -> list[list[torch.Tensor]]:
    if not tensors:
        return []
    if detach:
        return [[t.detach() if i == 0 else t.detach().clone() for t in tensors] for i in range(len(devices))]
    copies = _Broadcast.apply(len(devices), *tensors)
    return [list(copies[i : i + len(tensors)]) for i in range(0, len(copies), len(tensors))]


@contextlib.contextmanager
def _on_no_devices() -> Iterator[None]:
    with (
        mock.patch.object(scatter_gather, "Scatter", _Scatter),
        mock.patch.object(scatter_gather, "Gather", _Gather),
        mock.patch.object(replicate_module, "_broadcast_coalesced_reshape", _broadcast),
    ):
        yield


class ReferenceDataParallel(nn.Module):
    """nn.DataParallel with `count` devices, replicas run one after the other."""

    def __init__(self, module: nn.Module, count: int, dim: int = 0) -> None:
        super().__init__()
        self.module, self.count, self.dim = module, count, dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        with _on_no_devices():
            devices = list(range(self.count))
            scattered, keywords = scatter_gather.scatter_kwargs(inputs, kwargs, devices, self.dim)
            if not scattered and not keywords:
                scattered, keywords = ((),), ({},)
            replicas = replicate_module.replicate(
                self.module, devices[: len(scattered)], detach=not torch.is_grad_enabled()
            )
            if not len(scattered) == len(keywords) == len(replicas):
                raise AssertionError("arguments make different numbers of chunks")
            outputs = [
                replica(*args, **options) for replica, args, options in zip(replicas, scattered, keywords, strict=True)
            ]
            return scatter_gather.gather(outputs, "cpu", self.dim)
