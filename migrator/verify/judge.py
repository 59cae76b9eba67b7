"""From records to a verdict: EQUAL only if there was something to compare and it was compared.

In: the records of both sides and how their processes ended.  Out: a `Verdict`.  Never says EQUAL when DataParallel did not run
on the devices, a rank did not take the steps, a loss was not finite or all gradients were zero.
"""

from __future__ import annotations

import contextlib
import math
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .compare import compare, ordered
from .comparison import Comparison
from .launcher import Outcome
from .records import Record
from .shown import compare_files, compare_shown
from .verdict import Status, Verdict

PERMUTED = (
    "a permutation is drawn inside each rank's share of the batch (mixup, CutMix), where the original permutes the whole"
    " batch: an inherent difference of loading shares (--sampling call has none)"
)
CONNECTION = ("connection closed", "connection reset", "broken pipe", "timed out waiting", "connectionreset", "gloo")


def unverifiable(reason: str, traceback: str = "", **more: Any) -> Verdict:
    return Verdict(Status.NOT_VERIFIABLE, reason=reason, traceback=traceback, **more)


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
        _judge_whole(result, before, ranks, sampled)
        compare_shown(result, before, ranks)
        if not any(f.kind in ("error", "hang", "steps") for f in result.findings):
            compare_files(result, before, ranks, written)
    findings = tuple(replace(f, place=places.get(f.kind, "")) for f in ordered(result.findings))
    if findings and findings[0].kind in ("data", "loss", "gradient") and _permuted(ranks):
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


# ---------------------------------------------------------------- how the ranks ended
def _judge_ends(result: Comparison, before: Record, ranks: Sequence[Record], outcome: Outcome, wanted: int) -> str:
    """Errors, hangs and unequal numbers of steps; returns the traceback of the first cause."""
    failed = [r for r in ranks if r.error is not None]
    taken = [len(r.steps) for r in ranks]
    gone = [r.rank for r in ranks if r.end is None and r.error is None and r.rank not in outcome.killed]
    if gone and all(_is_consequence(r.error or {}) for r in failed):
        codes = ", ".join(str(outcome.processes[r].code) for r in gone)
        result.find("error", f"rank {_list(gone)} ended without a word (code {codes}; steps by rank: {_list(taken)})")
        return ""
    if failed:
        cause = next((r for r in failed if not _is_consequence(r.error or {})), failed[0])
        error = cause.error or {}
        first = error["message"].splitlines()[0] if error["message"] else ""
        hint = "its partners wait for it" if len(failed) == 1 and len(ranks) > 1 else ""
        if _is_consequence(error):
            hint = f"a rank waits for a collective that others do not enter (steps taken by rank: {_list(taken)})"
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
            f"rank {_list(silent)} did not come to an end when others did (steps by rank: {_list(taken)})",
            hint="ranks take different decisions, or wait for a collective that others do not enter",
        )
    elif silent and outcome.timed_out and len(set(taken)) > 1:
        result.find(
            "hang",
            f"ranks stopped at different steps: {_list(taken)}",
            hint="one waits for a collective that others do not enter",
        )
    elif not silent and len(set(taken)) > 1:
        result.find("steps", f"ranks took different numbers of optimizer steps: {_list(taken)}")
    elif not silent and taken and taken[0] != wanted:
        result.find("steps", f"the original took {wanted} optimizer steps, the converted program {taken[0]}")
    return ""


def _is_consequence(error: Mapping[str, Any]) -> bool:
    text = (error.get("message") or "").lower()
    return any(word in text for word in CONNECTION)


def _list(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))


# ---------------------------------------------------------------- the whole run
def _judge_whole(result: Comparison, before: Record, ranks: Sequence[Record], sampled: frozenset[str]) -> None:
    _judge_randomness(result, ranks, sampled)
    _judge_devices(result, ranks)
    census = before.census
    if any(what == "autocast" and on for what, on in census):
        result.note("autocast was run in float32: the precision that AMP takes away is not part of this check")
    if any(what == "compile" for what, _ in census):
        result.note(
            "compiled layers were run as they are written: what torch.compile changes is not part of this check"
        )
    if any(what == "DataParallel in threads" for what, _ in census):
        result.note("layers of the original wait for each other across replicas: its replicas ran in threads")
    for event in ranks[0].sharded:
        if event["kept"] != event["length"]:
            result.note(
                f"{event['length'] - event['kept']} of {event['length']} samples left out of each epoch on both sides:"
                " the converted sampler would repeat samples to fill the last batch (an inherent difference)"
            )
    for record in (before, *ranks):
        for text in record.notes:
            result.note(text)


def _judge_randomness(result: Comparison, ranks: Sequence[Record], sampled: frozenset[str]) -> None:
    ends = [r.end or {} for r in ranks]
    unlike = _unlike_samplers(ranks)
    if unlike:
        result.find(
            "random",
            f"the random numbers of the sampler are not equal on all ranks ({unlike}): shares overlap and leave samples out",
            hint="give the sampler a generator with the same seed on all ranks",
        )
    if any(e.get("splitting") for e in ends):
        return
    drawn = _drawn(ranks)
    for generator, what in (("torch", "noise"), ("numpy", "noise")):
        alike = _alike(ranks, generator)
        if generator in drawn and alike:
            result.find(
                "random",
                f"ranks draw the same {what} for their samples (rank {_list(alike)} as rank 0, {generator})",
                hint="seed the ranks differently: seed + rank",
            )
    for generator in sorted(sampled):
        # The generators of a worker are seeded from the process's torch generator.
        source = "torch" if any(e.get("counters", {}).get("workers") for e in ends) else generator
        alike = _alike(ranks, source)
        if alike:
            result.find(
                "random",
                f"ranks augment alike: the random numbers of rank {_list(alike)} for its samples are rank 0's ({generator})",
                hint="seed the ranks differently: seed + rank",
            )
            break
    if any(e.get("counters", {}).get("drawing forwards") for e in ends) and (alike := _alike(ranks, "torch")):
        result.note(
            f"random numbers inside the model (dropout) are those of rank 0 on rank {_list(alike)} too; DataParallel's"
            " devices, which share one seed, draw alike as well"
        )
    if _permuted(ranks):
        result.note(PERMUTED)


def _drawn(ranks: Sequence[Record]) -> set[str]:
    """What was drawn with as many rows as the rank's batch, outside the model."""
    return {what for rank in ranks for what in (rank.end or {}).get("drawn", {})}


def _permuted(ranks: Sequence[Record]) -> bool:
    return "permutation" in _drawn(ranks) and not any((r.end or {}).get("splitting") for r in ranks)


def _alike(ranks: Sequence[Record], generator: str) -> list[int]:
    """Ranks whose own generator is in the state of rank 0's."""
    own = ranks[0].generators.get(generator)
    return [r.rank for r in ranks[1:] if own is not None and r.generators.get(generator) == own]


def _unlike_samplers(ranks: Sequence[Record]) -> str:
    """A sampler that drew from unequal states; empty if there is none.

    A loader that deals nothing out may have an order of its own in each process, unless the batches are split at the call.
    """
    splitting = any((r.end or {}).get("splitting") for r in ranks)
    own, *others = [{**r.samplers, **(r.whole if splitting else {})} for r in ranks]
    for what, sources in own.items():
        for rank, drawn in enumerate(others, 1):
            if any(a != b for a, b in zip(sources, drawn.get(what, []), strict=False)):
                return f"{what}, rank {rank} against rank 0"
    return ""


def _judge_devices(result: Comparison, ranks: Sequence[Record]) -> None:
    for record in ranks:
        touched = {
            index for what, index in record.census if what in ("Tensor.cuda", "Tensor.to", "factory", "set_device")
        }
        if record.rank > 0 and touched and record.rank not in touched:
            result.find(
                "device",
                f"rank {record.rank} works on device {_list(sorted(touched))}, not on its own",
                hint="torch.cuda.set_device(local_rank) is missing, or devices are written into the source",
            )
            return
        strange = touched - {record.rank}
        if strange:
            result.note(f"rank {record.rank} also puts tensors on device {_list(sorted(strange))}")
