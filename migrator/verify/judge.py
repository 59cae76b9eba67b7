"""From records to a verdict: EQUAL only if there was something to compare and it was compared.

In: the records of both sides and how their processes ended.  Out: a `Verdict`.  Never says EQUAL when DataParallel did not run
on the devices, a rank did not take the steps, a loss was not finite or all gradients were zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .compare import compare, ordered
from .comparison import Comparison
from .judge_run import PERMUTED, judge_whole, listed, permuted
from .launcher import Outcome
from .records import Record
from .shown import compare_files, compare_shown
from .verdict import Status, Verdict

CONNECTION = ("connection closed", "connection reset", "broken pipe", "timed out waiting", "connectionreset", "gloo")


def judge(
    before: Record,
    ranks: Sequence[Record],
    outcome: Outcome,
    wanted: int,
    tolerance: float,
    devices: int,
    places: Mapping[str, str],
    written: tuple[Sequence[str], Sequence[str]] = ((), ()),
    sampled: frozenset[str] = frozenset(),
    float64: bool = False,
) -> Verdict:
    """The verdict on the converted program."""
    result = compare(before, ranks, tolerance, float64)
    traceback = _judge_ends(result, before, ranks, outcome, wanted)
    if not any(f.step is not None for f in result.findings) or not ranks[0].steps:
        judge_whole(result, before, ranks, sampled)
        compare_shown(result, before, ranks)
        if not any(f.kind in ("error", "hang", "steps") for f in result.findings):
            compare_files(result, before, ranks, written)
    findings = tuple(replace(f, place=places.get(f.kind, "")) for f in ordered(result.findings))
    if findings and findings[0].kind in ("data", "loss", "gradient") and permuted(ranks):
        findings = (replace(findings[0], hint=PERMUTED), *findings[1:])
    shared = Verdict(
        Status.DIFFERENT,
        findings=findings,
        notes=tuple(result.notes),
        rows=tuple(result.rows),
        steps=len(result.rows),
        devices=devices,
        tolerance=tolerance,
        no_gradient=_without_gradient(before),
        noise=tuple(part + name for name, part in result.noise.items()),
        quiet=tuple(sorted(result.quiet)),
        unresolved=result.unresolved,
        traceback=traceback,
    )
    if findings:
        return shared
    if outcome.timed_out:
        return replace(
            shared,
            status=Status.NOT_VERIFIABLE,
            reason=f"the converted program took {len(ranks[0].steps)} of {wanted} steps before the time-out, without a"
            " difference so far (--timeout)",
        )
    reason = _vacuous(result, before, ranks, wanted)
    if reason:
        return replace(shared, status=Status.NOT_VERIFIABLE, reason=reason)
    return replace(shared, status=Status.EQUAL)


def _vacuous(result: Comparison, before: Record, ranks: Sequence[Record], wanted: int) -> str:
    """Why agreement would mean nothing."""
    if len(result.rows) < wanted:
        return f"only {len(result.rows)} of {wanted} optimizer steps could be compared"
    if not any(row.compared for row in result.rows):
        rows = result.rows[0].samples_before
        return (
            f"no step could be compared: batches of {rows} samples do not divide over {len(ranks)} processes (--devices,"
            " or --sampling call)"
        )
    if any(r.end is None for r in ranks):
        return "a rank did not reach its end"
    if not any(v is not None for s in before.steps for v in s["losses"]):
        return "no loss was seen: backward() was never called"
    return ""


def _without_gradient(record: Record) -> tuple[str, ...]:
    """Trained parameters whose gradient was none or zero at every step of their optimizer."""
    touched: dict[str, bool] = {}
    for step, names in zip(record.steps, record.names, strict=True):
        for name, trained, grad in zip(names.names, names.trained, step["grad"], strict=False):
            if trained:
                touched[name] = touched.get(name, False) or bool(grad and grad[0] > 0.0)
    return tuple(name for name, seen in touched.items() if not seen)


def _judge_ends(result: Comparison, before: Record, ranks: Sequence[Record], outcome: Outcome, wanted: int) -> str:
    """Errors, hangs and unequal numbers of steps; returns the traceback of the first cause."""
    failed = [r for r in ranks if r.error is not None]
    taken = [len(r.steps) for r in ranks]
    gone = [r.rank for r in ranks if r.end is None and r.error is None and r.rank not in outcome.killed]
    if gone and all(_is_consequence(r.error or {}) for r in failed):
        codes = ", ".join(str(outcome.processes[r].code) for r in gone)
        result.find("error", f"rank {listed(gone)} ended without a word (code {codes}; steps by rank: {listed(taken)})")
        return ""
    if failed:
        cause = next((r for r in failed if not _is_consequence(r.error or {})), failed[0])
        error = cause.error or {}
        first = error["message"].splitlines()[0] if error["message"] else ""
        hint = "its partners wait for it" if len(failed) == 1 and len(ranks) > 1 else ""
        if _is_consequence(error):
            hint = f"a rank waits for a collective that others do not enter (steps taken by rank: {listed(taken)})"
        result.find(
            "error",
            f"rank {cause.rank} stops with {error['kind']} after {len(cause.steps)} steps: {first[:300]}",
            hint=hint,
        )
        return str(error["text"])
    silent = [r.rank for i, r in enumerate(ranks) if r.end is None]
    if silent and any(r.end is not None for r in ranks):
        result.find(
            "hang",
            f"rank {listed(silent)} did not come to an end when others did (steps by rank: {listed(taken)})",
            hint="ranks take different decisions, or wait for a collective that others do not enter",
        )
    elif silent and outcome.timed_out and len(set(taken)) > 1:
        result.find(
            "hang",
            f"ranks stopped at different steps: {listed(taken)}",
            hint="one waits for a collective that others do not enter",
        )
    elif not silent and len(set(taken)) > 1:
        result.find("steps", f"ranks took different numbers of optimizer steps: {listed(taken)}")
    elif not silent and taken and taken[0] != wanted:
        result.find("steps", f"the original took {wanted} optimizer steps, the converted program {taken[0]}")
    return ""


def _is_consequence(error: Mapping[str, Any]) -> bool:
    text = (error.get("message") or "").lower()
    return any(word in text for word in CONNECTION)
