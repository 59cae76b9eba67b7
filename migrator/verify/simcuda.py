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
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.backends.cudnn
import torch.serialization
import torch.utils._device

_OWN = __name__.rpartition(".")[0]
CPU = torch.device("cpu")
NAME = "Simulated GPU"


def called_by_program(depth: int = 2) -> bool:
    """Whether the frame `depth` above is the user's (or a library's) code, not torch's and not this package's."""
    name = sys._getframe(depth).f_globals.get("__name__") or ""
    return not (name == "torch" or name.startswith(("torch.", _OWN)))


class Devices:
    """The simulated devices of this process: how many, which one is current, and what was touched."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.census: collections.Counter[tuple[str, int]] = collections.Counter()
        self._thread = threading.local()
        self._main = 0

    @property
    def current(self) -> int:
        # Threads that torch starts (the autograd engine's) take the main thread's device, as they do on one GPU.
        return int(getattr(self._thread, "device", self._main))

    @current.setter
    def current(self, index: int) -> None:
        if threading.current_thread() is threading.main_thread():
            self._main = index
        self._thread.device = index

    def names_cuda(self, device: object) -> bool:
        if isinstance(device, bool):
            return False
        if isinstance(device, int):
            return True
        if isinstance(device, str):
            return device.split(":")[0] == "cuda"
        return isinstance(device, torch.device) and device.type == "cuda"

    def index(self, device: object) -> int | None:
        """The number that `device` means; None for what is no CUDA device."""
        if device is None:
            return self.current
        if isinstance(device, int):
            return self.current if device < 0 else device
        if isinstance(device, str):
            device = torch.device(device)
        if isinstance(device, torch.device) and device.type == "cuda":
            return self.current if device.index is None else int(device.index)
        return None

    def check(self, index: int) -> int:
        if index >= self.count:
            raise RuntimeError(
                f"CUDA error: invalid device ordinal (device {index} of {self.count} simulated devices was asked for)"
            )
        return index

    def redirect(self, device: Any, what: str) -> Any:
        """The CPU for a CUDA device, which is checked and counted; anything else as it is."""
        if not self.names_cuda(device):
            return device
        index = self.index(device)
        assert index is not None
        self.census[what, self.check(index)] += 1
        return CPU

    @contextlib.contextmanager
    def on(self, index: int | None) -> Iterator[None]:
        former = self.current
        if index is not None:
            self.current = index
        try:
            yield
        finally:
            self.current = former


def install(count: int) -> Devices:
    """Patch this process; there is no way back, so this belongs into a process that ends with its program."""
    devices = Devices(count)
    _patch_cuda(devices)
    _patch_accelerator(devices)
    _patch_tensor(devices)
    _patch_factories(devices)
    _patch_loading()
    _patch_autocast(devices)
    _patch_compile(devices)
    _patch_device_property(devices)
    torch.backends.cudnn.is_acceptable = lambda tensor: False
    return devices


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _zero(*_: Any, **__: Any) -> int:
    return 0


def _own(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function object of its own for each patched name: dynamo refuses two torch names that are one object."""

    @functools.wraps(function)
    def one(*arguments: Any, **keywords: Any) -> Any:
        return function(*arguments, **keywords)

    return one


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

    synchronize = wait = _nothing


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

    synchronize = wait_stream = wait_event = _nothing


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
        table[name] = _own(_nothing)
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
            setattr(cuda.nvtx, name, _own(_nothing))


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
        table[name] = _own(_nothing)
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):
        table[name] = _own(_zero)
    for name, value in table.items():
        setattr(accelerator, name, value)


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
    tensor.record_stream = _nothing
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
