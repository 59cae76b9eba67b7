"""What a check is asked to do, and what one forked run is told: plain data, nothing else.

In: the command line's values (`VerifyRequest`).  Out: what crosses the pipe to the fork server (`RunSettings`, as JSON).
Never imports torch and never touches the file system.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCRATCH, SHORT_SCRATCH = "mgmigrate-", "mgm-"  # how the names of temporary folders begin
BEFORE, AFTER = "before", "after"

# (side, step that was just taken, steps wanted or 0 while that is not known)
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """One check: the original program, the converted one, and how long to look.

    `before` and `after` are files, or, with `module`, folders in which that package lies.  `after` may also be a folder
    that holds a converted copy of the project: the entry is then found at the same relative place.  `after` None records
    the original only (`record_before`).
    """

    before: Path
    after: Path | None = None
    arguments: tuple[str, ...] = ()
    module: str | None = None  # run as `python -m module`
    devices: int = 4
    steps: int | None = None  # optimizer steps; None: into the second epoch
    float64: bool = False  # run freely in float64 instead of resynchronising in float32
    resynchronise: bool = False  # in float64 as well
    fake_data: int | None = None  # samples of each replaced torchvision data set
    timeout: float = 600.0  # seconds for each side's run
    patience: float = 20.0  # seconds that a rank may wait for another one, at least
    keep: Path | None = None  # keep scratch folder, logs and records here
    cwd: Path | None = None  # where the program would be started; default: the current folder
    root: Path | None = None  # what is copied into the scratch folder; default: cwd
    prelude: str = ""  # Python text that each child runs before the program
    environment: Mapping[str, str] = field(default_factory=dict)
    tolerance: float | None = None  # default: 1e-5, or 1e-9 in float64
    epoch_batches: int = 4  # training epochs are cut to this many batches
    policies: tuple[str, ...] = ()  # policies of the conversion that change training: nothing to verify then
    places: Mapping[str, str] = field(default_factory=dict)  # finding kind -> "file:line" of the converter's edit
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What one process of a run has to know.  Everything here survives JSON."""

    side: str  # BEFORE or AFTER
    rank: int
    world: int  # processes of this run: 1 before, `devices` after
    devices: int  # simulated devices that the program sees
    folder: str  # scratch folder of the whole check: records, snapshots, logs
    work: str  # the copy of the project that this run may write into
    cwd: str
    entry: str  # file to run, or folder to put on the path when `module` is given
    module: str | None
    arguments: list[str]
    steps: int  # 0: decide while running (before side only)
    epoch_batches: int
    trim: int  # samples of a shuffled epoch are cut to a multiple of this (1: not cut)
    pads: bool  # the converted program repeats samples of batches that do not divide (SplitBatchSampler)
    float64: bool
    free: bool  # not resynchronised after each step
    fake_data: int
    prelude: str
    collective_timeout: float  # seconds for one gloo operation
    cuts: bool = False  # the converted program cuts off what fills up an epoch's last batch (gather_batch)
    wholes: bool = False  # no model is split at the call: what the original wraps in a part is wrapped whole
    simulate: bool = True
    seed: int = 1

    def dump(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def load(data: dict[str, Any]) -> RunSettings:
        return RunSettings(**data)

    @property
    def record_path(self) -> Path:
        return Path(self.folder) / f"{self.side}.{self.rank}.jsonl"

    @property
    def log_path(self) -> Path:
        return Path(self.folder) / f"{self.side}.{self.rank}.log"
