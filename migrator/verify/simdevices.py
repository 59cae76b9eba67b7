"""The simulated devices of a process: how many, which one is current, and what the program touched.

A census counts the device numbers that the program names; the code behind every patch is torch's own, on the CPU.
"""

from __future__ import annotations

import collections
import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

import torch

_OWN = __name__.rpartition(".")[0]
CPU = torch.device("cpu")


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


def nothing(*_: Any, **__: Any) -> None:
    """Takes anything and does nothing."""
    return None
