"""How much of a step is communication, and how much of that is exposed, from a torch.profiler trace.

In: a Chrome trace (also gzipped) as Kineto writes it.  Out: a `Shares` per device.  The file is read in pieces: one event at a time
is decoded, and only start, end and kind of the events that count are kept, so memory and time grow with the number of events.

On a GPU communication is NCCL's kernels and copies from GPU to GPU, computation every other kernel.  On a CPU it is gloo's
operations, and computation the operators of the program's threads; calls that merely enclose others (autograd's, c10d's) are neither.
A collective's time includes waiting for the slowest rank.
"""

from __future__ import annotations

import gzip
import json
import re
from array import array
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

PIECE = 1 << 20  # characters
_COMMUNICATION = re.compile(r"nccl|rccl|Memcpy PtoP", re.IGNORECASE)
_SYNC = re.compile(r"all_?reduce|reduce_?scatter|_?Reduce(_|\b)|ReduceAdd", re.IGNORECASE)
_ENCLOSING = (
    "autograd::",
    "c10d::",
    "torch::autograd",
    "gloo:",
    "nccl:",
    "DistributedDataParallel",
    "Optimizer.",
    "record_param_comms",
)
_LISTED = re.compile(r'"traceEvents"\s*:\s*\[')

Intervals: TypeAlias = Any  # array of float64, rows of start and end in microseconds


class TraceError(Exception):
    """The file is no trace, or breaks off."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Times of one device over the profiled steps, in milliseconds; `exposed + overlapped == communication`."""

    device: str
    wall: float
    compute: float
    communication: float
    exposed: float  # communication that no computation covers
    synchronisation: float  # reductions of gradients alone
    busy: float  # anything at all, copies from and to the host included
    steps: int

    @property
    def overlapped(self) -> float:
        return self.communication - self.exposed


@dataclass(slots=True)
class _Lane:
    """Starts and ends, one after the other, of a device's events by kind."""

    compute: array[float] = field(default_factory=lambda: array("d"))
    communication: array[float] = field(default_factory=lambda: array("d"))
    synchronisation: array[float] = field(default_factory=lambda: array("d"))
    other: array[float] = field(default_factory=lambda: array("d"))


# -------------------------------------------------------------------- reading
def events(path: Path) -> Iterator[dict[str, Any]]:
    """The trace's events, one after the other; raises `TraceError`."""
    opened: Any = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8", errors="replace") as file:
            yield from _events(file, path)
    except (OSError, EOFError) as error:
        raise TraceError(f"{path}: cannot be read: {error}") from error


def _events(file: IO[str], path: Path) -> Iterator[dict[str, Any]]:
    text = ""
    while True:
        piece = file.read(PIECE)
        text += piece
        found = _LISTED.search(text)
        if found:
            break
        if not piece:
            raise TraceError(f"{path}: has no traceEvents")
    decode = json.JSONDecoder(strict=False).raw_decode
    place = found.end()
    while True:
        place = _skip(text, place)
        if place < len(text) and text[place] == "]":
            return
        try:
            if place >= len(text):
                raise ValueError
            event, place = decode(text, place)
        except ValueError:
            piece = file.read(max(PIECE, len(text) - place))  # a longer event doubles it, so that no text is read often
            if not piece:
                raise TraceError(f"{path}: breaks off inside its events") from None
            text, place = text[place:] + piece, 0
            continue
        if isinstance(event, dict):
            yield event


def _skip(text: str, place: int) -> int:
    while place < len(text) and text[place] in " \t\r\n,":
        place += 1
    return place


# -------------------------------------------------------------------- shares
def read_shares(path: Path) -> list[Shares]:
    """Shares of every device in the trace: its GPUs, or the CPU where there is none."""
    lanes: dict[str, _Lane] = defaultdict(_Lane)
    steps: list[tuple[float, float]] = []
    for event in events(path):
        if event.get("ph") != "X" or "dur" not in event:
            continue
        start = float(event["ts"])
        end = start + float(event["dur"])
        name, category = event.get("name", ""), event.get("cat", "")
        if name.startswith("ProfilerStep#") and category == "user_annotation":
            steps.append((start, end))
            continue
        device, kind = _place(event, name, category)
        if device is not None:
            lane = lanes[device]
            getattr(lane, kind).extend((start, end))
            if kind == "communication" and _SYNC.search(name):
                lane.synchronisation.extend((start, end))
    gpus = {name: lane for name, lane in lanes.items() if name != "cpu"}
    chosen = gpus or lanes
    if not chosen:
        raise TraceError(f"{path}: holds no operators and no kernels")
    return [_shares(name, lane, steps) for name, lane in sorted(chosen.items())]


def _place(event: dict[str, Any], name: str, category: str) -> tuple[str | None, str]:
    """Device and kind of an event; device None for what does not count."""
    if category == "kernel":
        return _device(event), "communication" if _COMMUNICATION.search(name) else "compute"
    if category == "gpu_memcpy":
        return _device(event), "communication" if _COMMUNICATION.search(name) else "other"
    if category == "gpu_memset":
        return _device(event), "other"
    if name.startswith("gloo:"):
        return "cpu", "communication"
    if category == "cpu_op" and not name.startswith(_ENCLOSING):
        return "cpu", "compute"
    return None, ""


def _device(event: dict[str, Any]) -> str:
    arguments = event.get("args") or {}
    return f"cuda:{arguments.get('device', event.get('pid', 0))}"


def _shares(device: str, lane: _Lane, steps: list[tuple[float, float]]) -> Shares:
    every = [_rows(part) for part in (lane.compute, lane.communication, lane.other)]
    if steps:
        low, high = min(s for s, _ in steps), max(e for _, e in steps)
    else:
        joined = np.concatenate(every)
        low, high = float(joined[:, 0].min()), float(joined[:, 1].max())
    compute, communication, other = (_clip(rows, low, high) for rows in every)
    synchronisation = _clip(_rows(lane.synchronisation), low, high)
    computed = covered(compute)
    both = covered(np.concatenate([compute, communication]))
    return Shares(
        device=device,
        wall=(high - low) / 1000,
        compute=computed / 1000,
        communication=covered(communication) / 1000,
        exposed=(both - computed) / 1000,
        synchronisation=covered(synchronisation) / 1000,
        busy=covered(np.concatenate([compute, communication, other])) / 1000,
        steps=max(1, len(steps)),
    )


def _rows(flat: array[float]) -> Intervals:
    return np.frombuffer(flat, dtype=np.float64).reshape(-1, 2) if len(flat) else np.empty((0, 2))


def _clip(rows: Intervals, low: float, high: float) -> Intervals:
    clipped = np.clip(rows, low, high)
    return clipped[clipped[:, 1] > clipped[:, 0]]


def covered(rows: Intervals) -> float:
    """Length of the union of intervals."""
    if not len(rows):
        return 0.0
    ordered = rows[np.argsort(rows[:, 0], kind="stable")]
    reach = np.maximum.accumulate(ordered[:, 1])  # how far the intervals up to here go
    before = np.concatenate([[-np.inf], reach[:-1]])
    return float(np.maximum(0.0, ordered[:, 1] - np.maximum(ordered[:, 0], before)).sum())
