"""Tensors, factories and files of a simulated CUDA process: what is moved to a GPU stays on the CPU, and says that it is there.

In: the `Devices` of this process.  Out: tensor methods, factories, loading and the device of a tensor, patched.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.serialization
import torch.utils._device

from .simdevices import Devices, called_by_program, nothing


def install(devices: Devices) -> None:
    """Patch this process for good."""
    _patch_tensor(devices)
    _patch_factories(devices)
    _patch_loading()
    _patch_device_property(devices)


def _patch_tensor(devices: Devices) -> None:
    tensor = torch.Tensor
    to, kind = tensor.to, tensor.type

    def cuda(self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
        devices.redirect("cuda" if device is None else device, "Tensor.cuda")
        return self.clone()  # a copy, as on a GPU: an alias would let writes leak into the CPU tensor

    def patched_to(self: Any, *arguments: Any, **keywords: Any) -> Any:
        moved = False
        if arguments and not isinstance(arguments[0], (torch.dtype, torch.Tensor)):
            moved = devices.names_cuda(arguments[0]) or str(arguments[0]).startswith("cpu")
            arguments = (devices.redirect(arguments[0], "Tensor.to"), *arguments[1:])
        if keywords.get("device") is not None:
            moved = devices.names_cuda(keywords["device"]) or str(keywords["device"]).startswith("cpu")
            keywords["device"] = devices.redirect(keywords["device"], "Tensor.to")
        result = to(self, *arguments, **keywords)
        return result.clone() if moved and result is self else result

    def patched_type(self: Any, dtype: Any = None, *arguments: Any, **keywords: Any) -> Any:
        if isinstance(dtype, str):
            dtype = dtype.replace("torch.cuda.", "torch.")
        result = kind(self, dtype, *arguments, **keywords)
        if isinstance(result, str) and called_by_program() and result.startswith("torch."):
            return "torch.cuda." + result.removeprefix("torch.")
        return result

    tensor.cuda, tensor.to, tensor.type = cuda, patched_to, patched_type
    tensor.cpu = lambda self, *_, **__: self.clone()
    tensor.pin_memory = lambda self, *_, **__: self
    tensor.is_pinned = lambda self, *_, **__: False
    tensor.record_stream = nothing
    for name in ("new_tensor", "new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided"):
        setattr(tensor, name, _factory(devices, getattr(tensor, name)))


def _factory(devices: Devices, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def made(*arguments: Any, **keywords: Any) -> Any:
        if keywords.get("device") is not None:
            keywords["device"] = devices.redirect(keywords["device"], "factory")
        if keywords.get("pin_memory"):
            keywords["pin_memory"] = False
        return function(*arguments, **keywords)

    return made


def _patch_factories(devices: Devices) -> None:
    constructors = set(torch.utils._device._device_constructors())
    for module in (torch, torch.fft, torch.nested):
        for name in dir(module):
            function: Any = getattr(module, name, None)
            if callable(function) and getattr(function, "__hash__", None) and function in constructors:
                setattr(module, name, _factory(devices, function))
    for name in [
        "zeros_like",
        "ones_like",
        "empty_like",
        "full_like",
        "rand_like",
        "randn_like",
        "randint_like",
        "normal",
        "from_file",
        "frombuffer",
    ]:
        setattr(torch, name, _factory(devices, getattr(torch, name)))

    context = torch.utils._device.DeviceContext
    context_init = context.__init__
    context.__init__ = lambda self, device: context_init(self, devices.redirect(device, "device context"))

    set_default = torch.set_default_tensor_type
    torch.set_default_tensor_type = lambda t: set_default(
        t.replace("torch.cuda.", "torch.") if isinstance(t, str) else t
    )

    generator = torch.Generator

    class Generator(generator):  # type: ignore[valid-type,misc]
        def __new__(cls, device: Any = "cpu") -> Any:
            return generator.__new__(cls, device=devices.redirect(device, "Generator"))

    torch.Generator = Generator


def _patch_loading() -> None:
    # One entry covers every form of map_location: strings, devices, dictionaries and functions.
    torch.serialization.register_package(
        1, lambda storage: None, lambda storage, location: storage if location.startswith("cuda") else None
    )
    for storage in (torch.UntypedStorage, torch.TypedStorage):
        storage.cuda = lambda self, *_, **__: self


def _patch_device_property(devices: Devices) -> None:
    """`x.device`, `x.is_cuda` and `x.get_device()` lie to the program and tell torch the truth."""
    base = torch._C.TensorBase
    device, is_cuda, get_device = base.device, base.is_cuda, base.get_device

    def patched_device(self: Any) -> Any:
        real = device.__get__(self)
        if real.type == "cpu" and called_by_program():
            return torch.device("cuda", devices.current)
        return real

    torch.Tensor.device = property(patched_device)
    torch.Tensor.is_cuda = property(lambda self: True if called_by_program() else is_cuda.__get__(self))
    torch.Tensor.get_device = lambda self: devices.current if called_by_program() else get_device(self)
