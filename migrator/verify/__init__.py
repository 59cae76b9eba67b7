"""Check that a converted program trains as its original does, on simulated GPUs.

In: a `VerifyRequest`.  Out: a `Verdict` (EQUAL, DIFFERENT with the cause first, or NOT VERIFIABLE with the reason).  The original
runs unmodified on N simulated devices, the converted program on N gloo processes, both in child processes and in copies of
the project.  Importing this package imports no torch.
"""

from .check import record_before, verify
from .launcher import ForkServer, ServerFailed
from .report import headline, to_json, to_text
from .runs import Recording
from .settings import VerifyRequest
from .verdict import EXIT_CODES, Finding, Row, Status, Verdict

__all__ = [
    "EXIT_CODES",
    "Finding",
    "ForkServer",
    "Recording",
    "Row",
    "ServerFailed",
    "Status",
    "Verdict",
    "VerifyRequest",
    "headline",
    "record_before",
    "to_json",
    "to_text",
    "verify",
]
