"""The state of one run inside its process: the record file, the step counter and what the hooks tell each other.

In: `RunSettings`.  Out: one JSON line per event in the run's record file, flushed at once, so that a killed run keeps
its log.  Only the process that was started writes: children that the program forks are silent.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from .settings import AFTER, RunSettings
from .simdevices import Devices


@dataclass(slots=True)
class Call:
    """One call of the wrapped model (or of its bare module): how many rows, which ones, and in which mode."""

    wrap: int
    bare: bool
    training: bool
    grad: bool
    chunks: list[dict[str, Any]] = field(default_factory=list)
    source: list[Any] | None = None  # sample numbers of the loader's latest batch

    def dump(self) -> dict[str, Any]:
        return {"wrap": self.wrap, "bare": self.bare, "mode": self.training, "chunks": self.chunks, "ids": self.source}


class Place(threading.local):
    """Which replica's forward this thread is in."""

    number: int | None = None  # of the call of the wrapped model
    replica: int = 0
    functions: int = 0  # applications of the program's own autograd functions so far


@dataclass(slots=True)
class Session:
    """Mutable, one per process; hooks close over it."""

    settings: RunSettings
    devices: Devices | None
    out: IO[str]
    pid: int = field(default_factory=os.getpid)
    start: float = field(default_factory=time.perf_counter)
    step: int = 0
    hook_seconds: float = 0.0  # CPU time
    ended: bool = False
    # -- calls and batches since the last optimizer step
    depth: int = 0  # inside how many wrapped calls
    fetching: bool = False  # samples and batches are being made in this process
    candidates: list[Call] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    evaluations: list[Call] = field(default_factory=list)
    losses: list[float | None] = field(default_factory=list)
    synchronised: int = 0
    clips: list[float] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    latest_batch: list[Any] | None = None
    latest_rows: int | None = None
    delivered: int = 0  # training batches since the last step
    batches: list[list[Any]] = field(default_factory=list)  # sample numbers of each batch read with gradients
    collectives: list[str] = field(default_factory=list)
    read_samples: list[Any] = field(default_factory=list)  # sample numbers of batches read without gradients
    # -- what was seen in the whole run
    wraps: list[Any] = field(default_factory=list)  # wrapper modules in order of creation
    place: Place = field(default_factory=Place)
    forwards: int = 0  # wrapped training calls, the number that seeds a replica's forward
    splitting: bool = False  # a class that splits the batch at the call was made
    second_epoch: bool = False
    drawn: Counter[str] = field(default_factory=Counter)  # random draws of batch shape outside the model
    pinned: bool = False  # the generators were set from here at least once
    counters: Counter[str] = field(default_factory=Counter)

    @property
    def after(self) -> bool:
        return self.settings.side == AFTER

    @property
    def folder(self) -> Path:
        return Path(self.settings.folder)

    @property
    def foreign(self) -> bool:
        """Whether this is a child that the program forked: it must not write into its parent's record."""
        return os.getpid() != self.pid

    def record(self, event: str, /, **values: Any) -> None:
        if self.foreign:
            return
        self.out.write(json.dumps({"t": event, **values}) + "\n")
        self.out.flush()

    def ordinal(self, name: str) -> int:
        """0, 1, 2, .. for each name."""
        self.counters[name] += 1
        return self.counters[name] - 1
