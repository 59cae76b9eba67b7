"""Samples of NVML while a run goes on: memory used, utilisation, clocks, and why clocks were lowered.

In: the GPUs' UUIDs (NVML's numbers ignore CUDA_VISIBLE_DEVICES).  Out: a `Sampled` per GPU.  Runs in the launcher, never in the
measured process.  Needs nvidia-ml-py; without it, or without a driver, nothing is sampled.  Not run on a GPU so far.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

PERIOD = 0.1  # seconds; NVML's own utilisation covers 1/6 to 1 s
# Bits of nvmlClocksEventReasons that are no fault: idle, application clocks, a display setting.
_HARMLESS = 0x1 | 0x2 | 0x100
_REASONS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal limit",
    0x40: "hardware thermal limit",
    0x80: "power brake",
}


@dataclass(slots=True)
class Sampled:
    """One GPU: highest memory in use, and values over time."""

    uuid: str
    used: int = 0
    total: int = 0
    utilisation: list[float] = field(default_factory=list)
    clocks: list[float] = field(default_factory=list)
    reasons: set[str] = field(default_factory=set)


def load() -> Any:
    """The NVML module, ready to be asked; None where there is none."""
    try:
        import pynvml  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except Exception:  # NVMLError has a class per code
        return None
    return pynvml


@contextlib.contextmanager
def sampling(uuids: list[str], nvml: Any = None) -> Iterator[list[Sampled]]:
    """Sample in a thread while the block runs; the list is filled as it goes."""
    nvml = nvml or load()
    found = [Sampled(uuid) for uuid in uuids]
    if nvml is None or not uuids:
        yield []
        return
    stop = threading.Event()
    thread = threading.Thread(target=_sample, args=(nvml, found, stop), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join(5.0)


def _sample(nvml: Any, found: list[Sampled], stop: threading.Event) -> None:
    handles = []
    for one in found:
        with contextlib.suppress(Exception):
            handles.append((one, nvml.nvmlDeviceGetHandleByUUID(one.uuid)))
    while not stop.is_set():
        begun = time.monotonic()
        for one, handle in handles:
            with contextlib.suppress(Exception):
                memory = nvml.nvmlDeviceGetMemoryInfo(handle)
                one.used, one.total = max(one.used, int(memory.used)), int(memory.total)
            with contextlib.suppress(Exception):
                busy = float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
                clock = float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))
                if busy > 0:  # start-up and end of a run are no part of it
                    one.utilisation.append(busy)
                    one.clocks.append(clock)
                    one.reasons |= reasons(int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)))
        stop.wait(max(0.01, PERIOD - (time.monotonic() - begun)))


def reasons(bits: int) -> set[str]:
    """Names of the reasons for lowered clocks in NVML's bit mask."""
    return {name for bit, name in _REASONS.items() if bits & bit and not bit & _HARMLESS}
