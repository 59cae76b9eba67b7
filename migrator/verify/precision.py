"""float64 in place of float32, for a comparison that runs freely.

In: the session.  Out: default dtype, loader batches, and the ways in which a *program* says float32 (`.float()`,
`dtype=torch.float32`, `FloatTensor`, a float32 array) give float64.  What torch itself asks for is left alone: GradScaler needs its float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import dataloader as loaders

from .calls import as_double
from .session import Session
from .simdevices import called_by_program

FACTORIES = [
    "zeros",
    "ones",
    "full",
    "empty",
    "rand",
    "randn",
    "tensor",
    "as_tensor",
    "arange",
    "linspace",
    "zeros_like",
    "ones_like",
    "randn_like",
    "rand_like",
    "full_like",
    "empty_like",
]
FROM_ARRAYS = ["from_numpy", "tensor", "as_tensor"]


def install(session: Session) -> None:
    torch.set_default_dtype(torch.float64)
    tensor = torch.Tensor
    to, to_float, kind = tensor.to, tensor.float, tensor.type

    def patched_float(self: Any, *arguments: Any, **keywords: Any) -> Any:
        return self.double() if called_by_program() else to_float(self, *arguments, **keywords)

    def patched_to(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if called_by_program():
            arguments = tuple(torch.float64 if x is torch.float32 else x for x in arguments)
            if keywords.get("dtype") is torch.float32:
                keywords["dtype"] = torch.float64
        return to(self, *arguments, **keywords)

    def patched_type(self: Any, dtype: Any = None, *arguments: Any, **keywords: Any) -> Any:
        if called_by_program() and (
            dtype in (torch.float32, torch.FloatTensor)
            or (isinstance(dtype, str) and dtype.endswith("FloatTensor") and "BFloat" not in dtype)
        ):
            dtype = torch.float64
        return kind(self, dtype, *arguments, **keywords)

    tensor.float, tensor.to, tensor.type = patched_float, patched_to, patched_type
    for name in FACTORIES:
        setattr(torch, name, _factory(getattr(torch, name)))
    for name in FROM_ARRAYS:
        setattr(torch, name, _from_arrays(getattr(torch, name)))

    iterator = loaders._BaseDataLoaderIter
    following = iterator.__next__
    iterator.__next__ = lambda self: as_double(session, following(self))


def _from_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """Tensors of numpy's float32 arrays: parameters and buffers that a program computes with numpy."""

    def made(*arguments: Any, **keywords: Any) -> Any:
        tensor = function(*arguments, **keywords)
        is_array = bool(arguments) and type(arguments[0]).__module__ == "numpy"
        if is_array and tensor.dtype is torch.float32 and called_by_program():
            return tensor.detach().double().requires_grad_(tensor.requires_grad)
        return tensor

    return made


def _factory(function: Callable[..., Any]) -> Callable[..., Any]:
    def made(*arguments: Any, **keywords: Any) -> Any:
        if keywords.get("dtype") is torch.float32 and called_by_program():
            keywords["dtype"] = torch.float64
        return function(*arguments, **keywords)

    return made
