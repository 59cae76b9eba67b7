"""The record files of a run, read back.

In: a record file (one JSON object per line; the last line of a killed run may be cut).  Out: `Record`, with the names of
parameters that were valid at each step attached to it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Names:
    """The parameters of one optimizer at one step, in its order."""

    names: tuple[str, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    owned: tuple[bool, ...] = ()  # belongs to a wrapped model
    trained: tuple[bool, ...] = ()  # requires a gradient


@dataclass(slots=True)
class Record:
    """Everything one process wrote."""

    side: str
    rank: int
    pads: bool = False  # the converted program repeats samples of batches that do not divide
    cuts: bool = False  # it cuts off what fills up an epoch's last batch
    wraps: list[dict[str, Any]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    names: list[Names] = field(default_factory=list)  # of the optimizer of each step
    notes: list[str] = field(default_factory=list)
    printed: list[dict[str, Any]] = field(default_factory=list)
    scalars: list[dict[str, Any]] = field(default_factory=list)
    # generator -> where its state comes from at the end; and the same at each draw of a sampler
    generators: dict[str, str] = field(default_factory=dict)
    samplers: dict[str, list[str]] = field(default_factory=dict)
    whole: dict[str, list[str]] = field(default_factory=dict)  # .. of loaders that read everything in each process
    wrote: list[str] = field(default_factory=list)  # files opened for writing
    saved: list[dict[str, Any]] = field(default_factory=list)  # torch.save: file and keys
    sharded: list[dict[str, Any]] = field(default_factory=list)
    init: dict[str, Any] | None = None
    started: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    end: dict[str, Any] | None = None

    @property
    def census(self) -> dict[tuple[str, int], int]:
        return {(what, index): count for what, index, count in (self.end or {}).get("census", [])}

    @property
    def early(self) -> bool:
        """The program was over before the steps were taken."""
        return self.end is not None and bool(self.end["early"])


def read(path: Path, side: str, rank: int) -> Record:
    record = Record(side, rank)
    current: dict[int, Names] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            continue  # the process was ended while it wrote its last line
        _take(record, event, current)
    return record


def _take(record: Record, event: dict[str, Any], current: dict[int, Names]) -> None:
    kind = event["t"]
    if kind == "step":
        record.steps.append(event)
        record.names.append(current.get(event["opt"], Names()))
    elif kind == "names":
        shapes = tuple(tuple(shape) for shape in event["shapes"])
        current[event["opt"]] = Names(tuple(event["names"]), shapes, tuple(event["owned"]), tuple(event["trained"]))
    elif kind == "start":
        record.pads, record.cuts = event["pads"], event.get("cuts", False)
    elif kind == "note":
        record.notes.append(event["text"])
    elif kind == "wrote":
        record.wrote.append(event["file"])
    elif kind == "natural":
        record.generators.update({k: v for k, v in event.items() if k != "t"})
    elif kind == "seed":
        record.generators[event["generator"]] = "seed " + event["value"]
    elif kind == "sampler":
        source = event["value"] or ", ".join(f"{g} {record.generators.get(g, '')}" for g in event["uses"])
        (record.whole if event["whole"] else record.samplers).setdefault(event["what"], []).append(source)
    elif kind in ("wrap", "printed", "scalar", "sharded", "saved"):
        getattr(record, {"wrap": "wraps", "scalar": "scalars"}.get(kind, kind)).append(event)
    elif kind in ("init", "started", "error", "end"):
        setattr(record, kind, event)


def count_steps(path: Path) -> int:
    """Steps in a record that is still being written; cheap enough to be asked several times a second."""
    if not path.exists():
        return 0
    return sum(1 for line in path.open("rb") if line.startswith(b'{"t": "step"'))
