"""Whether the original's run can be compared with: it must have trained, under DataParallel, on all devices.

In: its record and how its process ended.  Out: None, or a verdict NOT VERIFIABLE with the reason.
"""

from __future__ import annotations

import contextlib
import math
import signal

from .launcher import Outcome
from .records import Record
from .verdict import Verdict, unverifiable


def judge_before(record: Record, outcome: Outcome, devices: int, log: str = "") -> Verdict | None:
    """Why nothing can be concluded from the original's run; None when it can serve.  `log` is what it printed."""
    reason = ""
    if record.error is not None:
        kind, message = record.error["kind"], record.error["message"]
        reason = f"the original stops with {kind}: {message.splitlines()[0] if message else ''}"
        if kind == "SystemExit":
            said = [line.strip() for line in log.splitlines() if line.strip() and not line.startswith("exit status")]
            message = (said or [""])[-1][:300] if message.isdigit() else message
            reason = f"the original ends with exit status {record.error['code']}: {message}"
        if "/torchvision/datasets/" in record.error["text"].replace("\\", "/"):
            reason += " (--fake-data puts random samples in the place of torchvision's data sets)"
        if record.steps:
            steps = len(record.steps)
            reason += f" (after {steps} optimizer steps; --steps {steps} checks what comes before)"
    elif outcome.timed_out:
        reason = f"the original took {len(record.steps)} optimizer steps before the time-out"
        if not record.steps:
            reason += ": it hangs, or needs a longer one (--timeout)"
    elif record.end is None:
        reason = _ended_silently(outcome.processes[0].code, len(record.steps), log)
    if reason:
        return unverifiable(reason, (record.error or {}).get("text", ""), steps=len(record.steps))
    if not record.steps:
        return unverifiable(
            "the original took no optimizer step in the process that was started (evaluation only, updates without an"
            " optimizer, or training in a child process)"
        )
    return _judge_substance(record, devices)


def _ended_silently(code: int | None, steps: int, log: str) -> str:
    """A process that was killed, or ended itself past Python."""
    how = f"code {code}"
    with contextlib.suppress(ValueError):
        how = f"signal {signal.Signals(-(code or 0)).name}"
    said = [line.strip() for line in log.splitlines() if line.strip()]
    last = f"; the last line it printed: {said[-1][:200]}" if said else " without a word"
    return f"the original's process ended with {how} after {steps} optimizer steps{last}"


def _judge_substance(record: Record, devices: int) -> Verdict | None:
    if not any(w["kind"] == "DataParallel" for w in record.wraps):
        return unverifiable(
            "the original made no DataParallel model in this run (a flag, or a guard that was not met?)"
        )
    if (record.end or {}).get("counters", {}).get("replicas inside replicas"):
        return unverifiable(
            "the original calls a DataParallel model inside a replica of another one: on GPUs torch stops there, because"
            " a replica's parameters are not on the inner model's first device"
        )
    training = [c for s in record.steps for c in s["calls"] if not c["bare"]]
    if not training:
        # A frozen wrapped model: what is trained sits behind it.
        training = [c for s in record.steps for c in s["evals"] if not c["bare"]]
    if not training:
        return unverifiable("the original never called its DataParallel model in the steps of this run")
    most = max(len(c["chunks"]) for c in training)
    if most < devices:
        held = sorted({tuple(w["devices"]) for w in record.wraps if w["kind"] == "DataParallel"})
        if held and all(len(h) < devices for h in held):
            number = max(len(h) for h in held)
            return unverifiable(
                f"DataParallel ran on {number} of {devices} devices (device_ids={list(held[-1])}): verify with --devices {number}"
            )
        rows = max((sum(c["n"] or 0 for c in call["chunks"]) for call in training), default=0)
        return unverifiable(
            f"DataParallel used {most} of {devices} replicas (batches of {rows} samples): use larger batches or --devices {most}"
        )
    for step in record.steps:
        if any(v is not None and not math.isfinite(v) for v in step["losses"]):
            return unverifiable(
                f"the original's loss is not finite at step {step['k']}: nothing can be compared with it"
            )
    if not any(g and g[0] > 0.0 for s in record.steps for g in s["grad"]):
        return unverifiable("all gradients of the original are zero: nothing can be compared with them")
    return None
