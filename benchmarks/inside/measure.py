"""Hooks that time an unmodified training program from inside its process.

In: the launcher's settings.  Out: one JSON file per rank, written once, at the end of the last window (or of the program).  A step
ends where the first optimizer to step has stepped; windows are consecutive steps between two synchronisations; nothing else is
synchronised.  Imports torch, the standard library and its own folder only, under whatever name that has in the process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import dataloader

from .batches import repeat_rows, rows_of
from .look import describe_work, read_memory, read_versions

PARENT_SECONDS = 2.0
TELL_SECONDS = 0.1
MEET_SECONDS = 30.0


class Meter:
    """The state of one process: what has been counted since the last step, and what was recorded of each."""

    def __init__(self, settings: dict[str, Any]):
        self.settings = settings
        self.folder = Path(settings["folder"])
        self.rank = int(os.environ.get("RANK", "0"))
        self.world = int(os.environ.get("WORLD_SIZE", "1"))
        self.pid = os.getpid()
        self.cuda = settings["device"] == "cuda" and torch.cuda.is_available()
        self.warmup, self.steps, self.windows = settings["warmup"], settings["steps"], settings["windows"]
        self.profile_steps = settings["profile_steps"]
        self.clock: Callable[[], float] = time.perf_counter
        self.count = 0
        self.primary: int | None = None
        # -- since the last step
        self.samples = 0.0
        self.wait = 0.0
        self.boundary = False
        # -- per step of the windows
        self.marks: list[Any] = []  # CUDA events, or times
        self.rows: list[tuple[float, float, bool]] = []  # samples, wait, boundary
        self.edges: list[float] = []  # synchronised times: opening, then the end of each window
        self.cpu: list[float] = []
        self.hook_seconds = 0.0
        self.drain_seconds = 0.0
        self.first_step: float | None = None
        self.counted = False  # a loader was seen
        self.workers: int | None = None
        self.autocast: str | None = None
        self.work: dict[str, Any] = {}
        self.memory: list[dict[str, Any]] = []
        self.profiler: Any = None
        self.profile_left = 0
        self.trace: str | None = None
        self.profile_error: str | None = None
        self.written = False
        self.asked_rows: int | None = settings["rows"]
        self.told = 0.0
        self.repeated: dict[int, Any] = {}  # by data set: its first batch, with the rows that were asked for
        self.steps_file = None if self.rank else os.open(self.folder / "steps", os.O_WRONLY | os.O_CREAT)

    # ---------------------------------------------------------------- hooks
    def delivered(self, iterator: Any, batch: Any, waited: float) -> Any:
        """Count a batch; gives what the program is to get."""
        if not torch.is_grad_enabled():
            self.boundary = True  # evaluation
            return batch
        if self.asked_rows is not None:
            batch = self.with_rows(id(getattr(iterator, "_dataset", None)), batch, self.asked_rows)
        self.wait += waited
        self.samples += rows_of(batch)
        self.counted = True
        self.workers = getattr(iterator, "_num_workers", None)
        return batch

    def with_rows(self, source: int, batch: Any, wanted: int) -> Any:
        """The data set's first batch, repeated to as many samples; made once, so that making it is in no figure."""
        if source not in self.repeated:
            have = rows_of(batch)
            if not have:
                raise TypeError("the loader's batches hold no tensors, and cannot be made larger")
            self.repeated[source] = repeat_rows(batch, have, wanted)
        return self.repeated[source]

    def after_step(self, optimizer: torch.optim.Optimizer) -> None:
        if self.primary is None:
            self.primary = id(optimizer)
        if id(optimizer) != self.primary or os.getpid() != self.pid or self.written:
            return
        begun = self.clock()
        self.count += 1
        if begun > self.told + TELL_SECONDS:
            self.told = begun
            self.tell_steps()
        if self.first_step is None:
            self.first_step = time.time() - self.settings["started"]
        number = self.count - self.warmup
        if number >= 0 and len(self.edges) <= self.windows:
            self.mark(number, optimizer)
        elif self.profiler is not None:
            self.step_profile()
        self.samples, self.wait, self.boundary = 0.0, 0.0, False
        self.hook_seconds += self.clock() - begun

    def tell_steps(self) -> None:
        """How far the program is, for the launcher."""
        if self.steps_file is not None:
            os.pwrite(self.steps_file, b"%9d" % self.count, 0)

    def mark(self, number: int, optimizer: torch.optim.Optimizer) -> None:
        """Step `number` of the windows is over; 0 opens the first one."""
        if self.cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.marks.append(event)
        else:
            self.marks.append(self.clock())
        if number:
            self.rows.append((self.samples, self.wait, self.boundary))
        if number % self.steps == 0:
            self.synchronise()
            self.edges.append(self.clock())
            self.cpu.append(time.process_time())
            if number == 0:
                self.open(optimizer)
            elif len(self.edges) > self.windows:
                self.close()

    def synchronise(self) -> None:
        if self.cuda:
            begun = self.clock()
            for device in self.devices():
                torch.cuda.synchronize(device)
            self.drain_seconds += self.clock() - begun

    def devices(self) -> list[int]:
        """A rank's own device; every visible one under DataParallel."""
        return [torch.cuda.current_device()] if "RANK" in os.environ else list(range(torch.cuda.device_count()))

    def open(self, optimizer: torch.optim.Optimizer) -> None:
        self.hook_seconds = self.drain_seconds = 0.0
        self.work = describe_work(optimizer, self.cuda)
        if self.cuda:
            for device in self.devices():
                torch.cuda.reset_peak_memory_stats(device)

    def close(self) -> None:
        """The last window is over: read what has to be read, then profile or leave."""
        self.work["hook_seconds"] = max(0.0, self.hook_seconds - self.drain_seconds)
        self.memory = read_memory(self.devices() if self.cuda else [], self.rank)
        if self.profile_steps:
            self.start_profile()
        if self.profiler is None:
            self.leave()

    # ---------------------------------------------------------------- profile
    def start_profile(self) -> None:
        activities = [torch.profiler.ProfilerActivity.CPU]
        if self.cuda:
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        try:
            self.profiler = torch.profiler.profile(
                activities=activities,
                schedule=torch.profiler.schedule(wait=1, warmup=1, active=self.profile_steps),
                on_trace_ready=self.keep_trace,
            )
            self.profiler.start()
            self.profile_left = self.profile_steps + 2
        except Exception as error:  # the program profiles itself already
            self.profiler = None
            self.profile_error = f"{type(error).__name__}: {error}"[:300]

    def keep_trace(self, profiler: Any) -> None:
        path = self.folder / f"{self.settings['variant']}.rank{self.rank}.pt.trace.json"
        profiler.export_chrome_trace(str(path))
        self.trace = str(path)

    def step_profile(self) -> None:
        try:
            self.synchronise()
            self.profiler.step()
        except Exception as error:
            self.profile_error = f"{type(error).__name__}: {error}"[:300]
            self.profile_left = 0
        self.profile_left -= 1
        if self.profile_left <= 0:
            self.leave()

    # ---------------------------------------------------------------- the end
    def write(self, finished: bool) -> None:
        if self.written or os.getpid() != self.pid:
            return
        self.written = True
        self.tell_steps()
        if self.cuda and len(self.marks) > 1:
            torch.cuda.synchronize()
            steps = [a.elapsed_time(b) for a, b in zip(self.marks, self.marks[1:], strict=False)]
        else:
            steps = [(b - a) * 1000 for a, b in zip(self.marks, self.marks[1:], strict=False)]
        whole = max(0, len(self.edges) - 1)
        kept = whole * self.steps
        spent = self.edges[-1] - self.edges[0] if whole else 0.0
        document = {
            "rank": self.rank,
            "world": self.world,
            "finished": finished,
            "count": self.count,
            "first_step": self.first_step,
            "windows": [b - a for a, b in zip(self.edges, self.edges[1:], strict=False)],
            "step_ms": steps[:kept],
            "samples": [row[0] for row in self.rows[:kept]] if self.counted else None,
            "wait": [row[1] for row in self.rows[:kept]],
            "boundary": [row[2] for row in self.rows[:kept]],
            "cpu_share": (self.cpu[whole] - self.cpu[0]) / spent if spent else None,
            "hook_share": self.work.get("hook_seconds", self.hook_seconds) / spent if spent else None,
            "workers": self.workers,
            "autocast": self.autocast,
            "work": self.work,
            "memory": self.memory or read_memory([], self.rank),
            "versions": read_versions(self.cuda),
            "trace": self.trace,
            "profile_error": self.profile_error,
        }
        path = self.folder / f"rank.{self.rank}.json"
        part = path.with_suffix(".part")
        part.write_text(json.dumps(document))
        os.replace(part, path)

    def leave(self) -> None:
        """End the program here.  A rank that left while others still exchange data would break their connections."""
        self.write(True)
        limit = time.monotonic() + MEET_SECONDS
        while time.monotonic() < limit and not all(
            (self.folder / f"rank.{r}.json").exists() for r in range(self.world)
        ):
            time.sleep(0.02)
        end_children()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(0)

    def end(self, code: int) -> None:
        """The program ended by itself."""
        if self.profiler is not None and self.trace is None:
            with contextlib.suppress(Exception):
                self.profiler.stop()
        self.write(code == 0 and len(self.edges) > self.windows)


# -------------------------------------------------------------------- installing
def install(settings: dict[str, Any]) -> Meter:
    """Set the hooks of this process."""
    meter = Meter(settings)
    register_optimizer_step_post_hook(lambda optimizer, *_: meter.after_step(optimizer))
    base: Any = dataloader._BaseDataLoaderIter
    take, clock = base.__next__, time.perf_counter

    def take_next(iterator: Any) -> Any:
        begun = clock()
        batch = take(iterator)
        got = clock()
        batch = meter.delivered(iterator, batch, got - begun)
        meter.hook_seconds += clock() - got
        return batch

    base.__next__ = take_next
    loader: Any = dataloader.DataLoader
    iterate, construct = loader.__iter__, loader.__init__

    def new_iterator(self: Any) -> Any:
        meter.boundary = True
        return iterate(self)

    def with_workers(self: Any, *args: Any, **options: Any) -> None:
        share = -(-settings["workers"] // meter.world)
        if len(args) > 5:
            args = (*args[:5], share, *args[6:])
        else:
            options["num_workers"] = share
        if share == 0:
            for name in ("prefetch_factor", "persistent_workers", "timeout", "multiprocessing_context"):
                options.pop(name, None)
        construct(self, *args, **options)

    loader.__iter__ = new_iterator
    if settings.get("workers") is not None:
        loader.__init__ = with_workers
    _watch_autocast(meter)
    threading.Thread(target=_follow_parent, args=(settings["launcher"],), daemon=True).start()
    return meter


def _watch_autocast(meter: Meter) -> None:
    autocast: Any = torch.amp.autocast_mode.autocast
    enter = autocast.__enter__

    def entered(self: Any) -> Any:
        if meter.autocast is None and getattr(self, "_enabled", False):
            meter.autocast = str(self.fast_dtype).removeprefix("torch.")
        return enter(self)

    autocast.__enter__ = entered


def _follow_parent(pid: int) -> None:
    """Nobody reads the result of a process whose launcher is gone."""
    while True:
        time.sleep(PARENT_SECONDS)
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            end_children()
            os._exit(1)
        except OSError:
            return


def end_children() -> None:
    """Loader workers and whatever else the program started through multiprocessing."""
    import multiprocessing

    for child in multiprocessing.active_children():
        with contextlib.suppress(Exception):
            os.kill(child.pid or 0, signal.SIGKILL) if child.pid else None
