"""What a check found: plain data.

In: nothing.  Out: `Verdict` and its parts, which the report prints and the command line turns into an exit code.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Status(Enum):
    EQUAL = "EQUAL"
    DIFFERENT = "DIFFERENT"
    NOT_VERIFIABLE = "NOT VERIFIABLE"


EXIT_CODES = {Status.EQUAL: 0, Status.DIFFERENT: 1, Status.NOT_VERIFIABLE: 3}

# Causes first: what stands further up explains what stands below it.
KINDS = (
    "wrap",
    "random",
    "data",
    "order",
    "rate",
    "settings",
    "start",
    "loss",
    "ranks",
    "gradient",
    "scaler",
    "parameter",
    "buffer",
    "lockstep",
    "error",
    "hang",
    "steps",
    "device",
    "evaluation",
    "metric",
    "files",
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference."""

    kind: str  # one of KINDS
    text: str
    step: int | None = None  # optimizer step, from 0; None: of the whole run
    hint: str = ""
    place: str = ""  # "file:line", where the converter knows it


@dataclass(frozen=True, slots=True)
class Row:
    """One optimizer step in figures."""

    step: int
    optimizer: int
    samples_before: int
    samples_after: int
    loss: float | None
    loss_difference: float  # relative
    gradient: float  # worst relative difference of a parameter's gradient
    parameter: float
    buffer: float
    ranks: float  # worst relative difference between ranks
    compared: bool = True  # False: the batch does not divide, and samples were repeated to fill it (a note says so)


@dataclass(frozen=True, slots=True)
class Verdict:
    status: Status
    reason: str = ""  # why not verifiable
    findings: tuple[Finding, ...] = ()  # causes first
    notes: tuple[str, ...] = ()  # intended or inherent differences, what was assumed
    rows: tuple[Row, ...] = ()
    steps: int = 0  # optimizer steps compared
    devices: int = 0
    tolerance: float = 0.0
    float64: bool = False
    free: bool = False  # not resynchronised after each step
    no_gradient: tuple[str, ...] = ()  # parameters that the original gave no gradient
    noise: tuple[str, ...] = ()  # parameters whose gradient is zero but for rounding: their values were not compared
    quiet: tuple[str, ...] = ()  # parameters with elements of that kind, whether they differ or not
    unresolved: int | None = None  # the last step where float32 could not tell that of another parameter
    traceback: str = ""  # the program's own
    cpu_before: float = 0.0  # seconds
    cpu_after: float = 0.0
    wall: float = 0.0
    memory: int = 0  # KiB, of the fork server
    folder: str = ""  # logs and records, when kept

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.status]

    @property
    def cause(self) -> str:
        """The kind of the first finding."""
        return self.findings[0].kind if self.findings else ""

    def dump(self) -> dict[str, Any]:
        """For JSON."""
        data = dataclasses.asdict(self)
        data.update(status=self.status.value, exit_code=self.exit_code, cause=self.cause, schema=1)
        return data


def unverifiable(reason: str, traceback: str = "", **more: Any) -> Verdict:
    """NOT VERIFIABLE, with the reason."""
    return Verdict(Status.NOT_VERIFIABLE, reason=reason, traceback=traceback, **more)
