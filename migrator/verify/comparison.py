"""What a comparison of records has found so far.

Tolerances are of float32 sums taken in another order; a float64 run has smaller rounding units.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .verdict import Finding, Row

RANKS_TOLERANCE = 1e-7
TINY = 1e-6  # float32: gradients below this share of the largest one are rounding noise
FLOOR = 1024.0  # rounding units: gradients that are closer than that, beside the largest one, may differ by rounding
UNITS = {False: 2.0**-23, True: 2.0**-52}  # of float32 and float64


@dataclass(slots=True)
class Comparison:
    """What is being found."""

    tolerance: float
    world: int
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    content_compared: bool = False
    unequal_shares: str = ""  # of the original's replicas, where the converted program has others
    float64: bool = False
    # Parameters of which elements have no gradient but rounding (`noise`): name -> how many, "" for all of them.
    noise: dict[str, str] = field(default_factory=dict)
    quiet: set[str] = field(default_factory=set)  # .. all of them, whether they differ or not
    unresolved: int | None = None  # the last step where float32 could not tell that of another parameter

    @property
    def floor(self) -> float:
        """How far gradients may be apart by rounding, as a share of the largest one."""
        return FLOOR * UNITS[self.float64]

    def find(self, kind: str, text: str, step: int | None = None, hint: str = "") -> None:
        self.findings.append(Finding(kind, text, step, hint))

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
