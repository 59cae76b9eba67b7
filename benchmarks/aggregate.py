"""From what the ranks of a run wrote to one `Run`, its `Work` and its `Communication`.

In: the ranks' documents.  Out: the slowest rank's times, everybody's samples, and everything that crossed the end of an epoch left
out.  Never imports torch.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.nvml import Sampled
from benchmarks.results import Communication, DeviceMemory, Run, Window, Work


def make_run(
    documents: Sequence[dict[str, Any]],
    number: int,
    steps: int,
    whole_batches: bool,
    load: float | None,
    sampled: Sequence[Sampled] = (),
) -> Run:
    """`steps` are those of a window; `whole_batches` says that every rank reads the whole global batch."""
    windows = min(len(d["windows"]) for d in documents)
    count = windows * steps
    left_out = [any(d["boundary"][i] for d in documents) for i in range(count)]
    counted = all(d["samples"] is not None for d in documents)
    readers = documents[:1] if whole_batches else documents
    found, waits = [], []
    for w in range(windows):
        inside = range(w * steps, (w + 1) * steps)
        kept = [i for i in inside if not left_out[i]]
        # What crossed an epoch's end is taken out of the synchronised time of the whole window.
        seconds = max(d["windows"][w] - sum(d["step_ms"][i] for i in inside if left_out[i]) / 1000 for d in documents)
        if not kept or seconds <= 0:
            continue
        samples = float(sum(d["samples"][i] for d in readers for i in kept)) if counted else None
        found.append(Window(len(kept), samples, seconds))
        waits.append(max(sum(d["wait"][i] for i in kept) for d in documents))
    spent = sum(w.seconds for w in found)
    return Run(
        round=number,
        windows=tuple(found),
        step_ms=tuple(max(d["step_ms"][i] for d in documents) for i in range(count) if not left_out[i]),
        left_out=sum(left_out),
        first_step_s=max((d["first_step"] for d in documents if d["first_step"] is not None), default=None),
        loader_wait=sum(waits) / spent if spent and counted else None,
        hook_share=max((d["hook_share"] for d in documents if d["hook_share"] is not None), default=None),
        cpu_share=min((d["cpu_share"] for d in documents if d["cpu_share"] is not None), default=None),
        load_before=load,
        memory=tuple(_memory(documents, sampled)),
        utilisation_pct=tuple(statistics.fmean(s.utilisation) for s in sampled if s.utilisation),
        clocks_mhz=tuple(statistics.fmean(s.clocks) for s in sampled if s.clocks),
        throttled=tuple(sorted({reason for s in sampled for reason in s.reasons})),
    )


def _memory(documents: Sequence[dict[str, Any]], sampled: Sequence[Sampled]) -> list[DeviceMemory]:
    by_uuid = {s.uuid.removeprefix("GPU-"): s for s in sampled if s.used}
    rows = []
    for document in documents:
        for one in document["memory"]:
            seen = by_uuid.get(one["uuid"].removeprefix("GPU-")) if one["uuid"] else None
            used = seen.used if seen is not None else one["used"]
            rows.append(DeviceMemory(one["device"], one["allocated"], one["reserved"], used, one["total"]))
    return rows


def make_work(documents: Sequence[dict[str, Any]], run: Run, devices: int) -> Work:
    """What a step did, as the processes saw it."""
    first = documents[0]["work"]
    steps = sum(w.steps for w in run.windows)
    samples = [w.samples for w in run.windows if w.samples is not None]
    batch = sum(samples) / steps if len(samples) == len(run.windows) and steps else None
    workers = [d["workers"] for d in documents]
    return Work(
        global_batch=batch,
        per_device_batch=batch / devices if batch is not None else None,
        loader_workers=sum(workers) if workers and None not in workers else None,
        precision=documents[0]["autocast"] or first.get("dtype"),
        tf32=first.get("tf32"),
        channels_last=first.get("channels_last"),
        optimizer=first.get("optimizer"),
        samples_counted=int(sum(samples)) if samples else None,
    )


def make_communication(documents: Sequence[dict[str, Any]]) -> tuple[Communication | None, str]:
    """Of the device with the largest share; and why there is none."""
    errors = [d["profile_error"] for d in documents if d["profile_error"]]
    paths = [d["trace"] for d in documents if d["trace"]]
    if not paths:
        return None, errors[0] if errors else "the program ended before its profile was taken"
    try:
        from benchmarks.trace import TraceError, read_shares
    except ImportError:
        return None, "numpy is not installed: pip install 'mgmigrate[bench]'"
    try:
        shares = [one for path in paths for one in read_shares(Path(path))]
    except TraceError as error:
        return None, str(error)
    worst = max(shares, key=lambda s: s.communication / s.wall if s.wall else 0.0)
    wall = worst.wall or 1.0
    return (
        Communication(
            total_ms=worst.communication / worst.steps,
            exposed_ms=worst.exposed / worst.steps,
            overlapped_ms=worst.overlapped / worst.steps,
            share_pct=worst.communication / wall * 100,
            exposed_pct=worst.exposed / wall * 100,
            overlap_pct=worst.overlapped / worst.communication * 100 if worst.communication else 0.0,
            gradient_sync_ms=worst.synchronisation / worst.steps,
            compute_ms=worst.compute / worst.steps,
            idle_ms=(worst.wall - worst.busy) / worst.steps,
            step_ms=worst.wall / worst.steps,
            steps=worst.steps,
            device=worst.device,
            method="trace",
            traces=tuple(Path(path).name for path in paths),
        ),
        "",
    )
