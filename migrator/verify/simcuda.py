"""CPU tensors that answer as CUDA ones: every way to say "cuda" is redirected, and what was asked for is counted.

In: a number of devices.  Out: `torch.cuda`, `torch.accelerator`, tensor methods, factories and loading patched in this
process, and a census of the device numbers that the program touched.  All tensors stay on the CPU: the autograd engine,
gloo and collate functions never see a device that does not exist.  Never patches the arithmetic of any operation; autocast is the one exception
(the program runs in the precision of its tensors, and the census says so).
"""

from __future__ import annotations

import collections
import contextlib
import functools
import time
import types
from collections.abc import Callable
from typing import Any

import torch
import torch.backends.cudnn

from . import simtensors
from .simdevices import Devices, nothing

NAME = "Simulated GPU"


def install(count: int) -> Devices:
    """Patch this process; there is no way back, so this belongs into a process that ends with its program."""
    devices = Devices(count)
    _patch_cuda(devices)
    _patch_accelerator(devices)
    simtensors.install(devices)
    _patch_autocast(devices)
    _patch_compile(devices)
    torch.backends.cudnn.is_acceptable = lambda tensor: False
    return devices


class Event:
    """torch.cuda.Event: times are the CPU's."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._time = 0.0

    def record(self, *_: Any) -> None:
        self._time = time.perf_counter()

    def elapsed_time(self, other: Event) -> float:
        return (other._time - self._time) * 1e3

    def query(self) -> bool:
        return True

    synchronize = wait = nothing


class Stream:
    """torch.cuda.Stream: everything has already happened."""

    cuda_stream = 0
    priority = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        self.device = torch.device("cuda", 0)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        return None

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record()
        return event

    def is_capturing(self) -> bool:
        return False

    def query(self) -> bool:
        return True

    synchronize = wait_stream = wait_event = nothing


def _zero(*_: Any, **__: Any) -> int:
    return 0


def _own(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function object of its own for each patched name: dynamo refuses two torch names that are one object."""

    @functools.wraps(function)
    def one(*arguments: Any, **keywords: Any) -> Any:
        return function(*arguments, **keywords)

    return one


def _patch_cuda(devices: Devices) -> None:
    cuda = torch.cuda

    def set_device(device: Any) -> None:
        index = devices.index(device)
        if index is not None and index >= 0:
            devices.current = devices.check(index)
            devices.census["set_device", index] += 1

    class device:
        def __init__(self, device: Any) -> None:
            self.idx = devices.index(device)
            self.prev_idx = -1

        def __enter__(self) -> None:
            self.prev_idx = devices.current
            if self.idx is not None:
                devices.current = devices.check(self.idx)

        def __exit__(self, *_: Any) -> None:
            devices.current = self.prev_idx

    class device_of(device):
        def __init__(self, _: Any) -> None:
            super().__init__(None)

    def properties(device: Any = None) -> Any:
        devices.check(devices.index(device) or 0)
        return types.SimpleNamespace(
            name=NAME, total_memory=80 << 30, major=8, minor=0, multi_processor_count=108, uuid="0", warp_size=32
        )

    table: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: devices.count,
        "current_device": lambda: devices.current,
        "set_device": set_device,
        "device": device,
        "device_of": device_of,
        "get_device_name": lambda device=None: NAME,
        "get_device_capability": lambda device=None: (8, 0),
        "get_device_properties": properties,
        "get_arch_list": lambda: ["sm_80"],
        "is_bf16_supported": lambda *_, **__: True,
        "is_current_stream_capturing": lambda: False,
        "can_device_access_peer": lambda *_: True,
        "mem_get_info": lambda device=None: (80 << 30, 80 << 30),
        "memory_summary": lambda *_, **__: "(simulated)",
        "memory_stats": lambda device=None: collections.defaultdict(int),
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "get_rng_state_all": lambda: [torch.get_rng_state()] * devices.count,
        "Event": Event,
        "Stream": Stream,
        "stream": lambda stream=None: contextlib.nullcontext(),
        "current_stream": lambda device=None: Stream(),
        "default_stream": lambda device=None: Stream(),
    }
    for name in [
        "synchronize",
        "empty_cache",
        "ipc_collect",
        "init",
        "_lazy_init",
        "reset_peak_memory_stats",
        "reset_max_memory_allocated",
        "reset_max_memory_cached",
        "reset_accumulated_memory_stats",
        "manual_seed",
        "manual_seed_all",
        "seed",
        "seed_all",
        "set_rng_state",
        "set_rng_state_all",
        "set_per_process_memory_fraction",
        "set_stream",
    ]:
        table[name] = _own(nothing)
    for name in [
        "memory_allocated",
        "max_memory_allocated",
        "memory_reserved",
        "max_memory_reserved",
        "memory_cached",
        "max_memory_cached",
        "initial_seed",
        "utilization",
        "temperature",
        "power_draw",
        "clock_rate",
    ]:
        table[name] = _own(_zero)
    for name, value in table.items():
        setattr(cuda, name, value)
    for name in ["Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Byte", "Char", "Bool"]:
        setattr(cuda, name + "Tensor", getattr(torch, name + "Tensor"))
    if hasattr(cuda, "nvtx"):
        for name in ("range_push", "range_pop", "mark"):
            setattr(cuda.nvtx, name, _own(nothing))


def _patch_accelerator(devices: Devices) -> None:
    accelerator = getattr(torch, "accelerator", None)  # torch 2.6
    if accelerator is None:
        return
    cuda = torch.cuda
    table: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: devices.count,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "current_device_index": lambda: devices.current,
        "current_device_idx": lambda: devices.current,
        "set_device_index": _own(cuda.set_device),
        "set_device_idx": _own(cuda.set_device),
        "current_stream": lambda device=None: Stream(),
        "device_index": cuda.device,
    }
    for name in ("set_stream", "synchronize", "empty_cache", "reset_peak_memory_stats"):
        table[name] = _own(nothing)
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):
        table[name] = _own(_zero)
    for name, value in table.items():
        setattr(accelerator, name, value)


def _patch_autocast(devices: Devices) -> None:
    autocast = torch.amp.autocast_mode.autocast
    init = autocast.__init__

    def patched(
        self: Any, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if device_type != "cuda":
            init(self, device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)
            return
        devices.census["autocast", int(bool(enabled))] += 1
        init(self, "cpu", dtype=torch.bfloat16, enabled=False)

    autocast.__init__ = patched


def _patch_compile(devices: Devices) -> None:
    """Compiled layers run as they are written: dynamo would trace the patches, and see the CPU."""
    compile_, module_compile = torch.compile, torch.nn.Module.compile

    def noted(*arguments: Any, **keywords: Any) -> Any:
        devices.census["compile", 0] += 1
        return compile_(*arguments, **keywords)

    def noted_module(self: Any, *arguments: Any, **keywords: Any) -> None:
        devices.census["compile", 0] += 1
        module_compile(self, *arguments, **keywords)

    torch.compile, torch.nn.Module.compile = noted, noted_module
    if hasattr(torch.compiler, "set_stance"):
        torch.compiler.set_stance("force_eager")  # the wrapper, and the names it gives, stay
    else:  # before torch 2.6
        torch._dynamo.config.disable = True
