"""What holds of a run as a whole: random numbers of the ranks, their devices, and what the check does not see.

In: the records of both sides.  Out: findings and notes in a `Comparison`.
"""

from __future__ import annotations

from collections.abc import Sequence

from .comparison import Comparison
from .records import Record

PERMUTED = (
    "a permutation is drawn inside each rank's share of the batch (mixup, CutMix), where the original permutes the whole"
    " batch: an inherent difference of loading shares (--sampling call has none)"
)


def judge_whole(result: Comparison, before: Record, ranks: Sequence[Record], sampled: frozenset[str]) -> None:
    """Findings and notes that belong to no step; `sampled` are the generators that workers drew from."""
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
                f"ranks draw the same {what} for their samples (rank {listed(alike)} as rank 0, {generator})",
                hint="seed the ranks differently: seed + rank",
            )
    for generator in sorted(sampled):
        # The generators of a worker are seeded from the process's torch generator.
        source = "torch" if any(e.get("counters", {}).get("workers") for e in ends) else generator
        alike = _alike(ranks, source)
        if alike:
            result.find(
                "random",
                f"ranks augment alike: the random numbers of rank {listed(alike)} for its samples are rank 0's ({generator})",
                hint="seed the ranks differently: seed + rank",
            )
            break
    if any(e.get("counters", {}).get("drawing forwards") for e in ends) and (alike := _alike(ranks, "torch")):
        result.note(
            f"random numbers inside the model (dropout) are those of rank 0 on rank {listed(alike)} too; DataParallel's"
            " devices, which share one seed, draw alike as well"
        )
    if permuted(ranks):
        result.note(PERMUTED)


def _drawn(ranks: Sequence[Record]) -> set[str]:
    """What was drawn with as many rows as the rank's batch, outside the model."""
    return {what for rank in ranks for what in (rank.end or {}).get("drawn", {})}


def permuted(ranks: Sequence[Record]) -> bool:
    """True when a rank permutes its share of the batch."""
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
                f"rank {record.rank} works on device {listed(sorted(touched))}, not on its own",
                hint="torch.cuda.set_device(local_rank) is missing, or devices are written into the source",
            )
            return
        strange = touched - {record.rank}
        if strange:
            result.note(f"rank {record.rank} also puts tensors on device {listed(sorted(strange))}")


def listed(values: Sequence[object]) -> str:
    """The values, with commas."""
    return ", ".join(map(str, values))
