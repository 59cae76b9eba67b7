"""Samplers of torch's that draw equal orders in both worlds.

In: the session.  Out: `RandomSampler` and `DistributedSampler` patched: a shuffled epoch is a permutation of (length, epoch); rank r reads
what replica r read; samplers that draw are noted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.utils.data as data

from .determinism import note_natural, seed_number
from .session import Session


def install(session: Session) -> None:
    """Patch both samplers for good."""
    _patch_random_sampler(session)
    _patch_distributed_sampler(session)


def note_sampler(
    session: Session, what: str, value: str = "", uses: list[str] | None = None, whole: bool = False
) -> None:
    """A sampler is about to draw: from a generator of its own, or from those of the process.

    `whole`: for a loader that reads everything in this process, whatever others read.
    """
    note_natural(session)
    session.record("sampler", what=what, value=value, uses=uses or [], whole=whole)


def permutation(session: Session, length: int, epoch: int) -> list[int]:
    """The order of a shuffled epoch, in any process."""
    generator = torch._C.Generator()
    generator.manual_seed(seed_number(session.settings.seed, "permutation", length, epoch))
    return list(torch.randperm(length, generator=generator).tolist())


def kept_length(session: Session, length: int, batch: int | None) -> int:
    """How many samples of a shuffled epoch are used: all but an unequal rest that the converted loader would pad."""
    path = session.folder / "lengths.json"
    if session.after:
        known = json.loads(path.read_text()) if path.exists() else {}
        return int(known.get(str(length), length))
    unit = session.settings.trim if session.settings.trim > 0 else (batch or 1)
    kept = length - length % unit if length > unit else length
    if not session.foreign:
        known = json.loads(path.read_text()) if path.exists() else {}
        if known.get(str(length)) != kept:
            path.write_text(json.dumps({**known, str(length): kept}))
    return kept


def _patch_random_sampler(session: Session) -> None:
    sampler = data.RandomSampler
    original, original_len = sampler.__iter__, sampler.__len__

    def plain(self: Any) -> bool:
        return not self.replacement and self.num_samples == len(self.data_source)

    def iterate(self: Any) -> Iterator[int]:
        if not plain(self):
            yield from original(self)
            return
        length = len(self.data_source)
        epoch = session.ordinal(f"random sampler {length}")
        whole = getattr(self, "_verify_whole", False)
        if self.generator is None:
            note_sampler(session, f"RandomSampler {length}", uses=["torch"], whole=whole)
        else:
            state = seed_number(self.generator.get_state().numpy().tobytes())
            note_sampler(session, f"RandomSampler {length}", value=f"generator {state}", whole=whole)
        order = permutation(session, length, epoch)
        yield from order[: kept_length(session, length, getattr(self, "_verify_batch", None))]

    def count(self: Any) -> int:
        if not plain(self):
            return int(original_len(self))
        return kept_length(session, len(self.data_source), getattr(self, "_verify_batch", None))

    sampler.__iter__, sampler.__len__ = iterate, count


def _patch_distributed_sampler(session: Session) -> None:
    sampler = data.distributed.DistributedSampler
    init = sampler.__init__
    epochs: dict[int, list[int]] = {}

    def patched_init(self: Any, *arguments: Any, **keywords: Any) -> None:
        init(self, *arguments, **keywords)
        if self.shuffle:
            kept = kept_length(session, len(self.dataset), None)
            share = kept // self.num_replicas if self.drop_last else math.ceil(kept / self.num_replicas)
            self.num_samples, self.total_size = share, share * self.num_replicas
            session.record("sharded", length=len(self.dataset), kept=kept)

    def iterate(self: Any) -> Iterator[int]:
        length = len(self.dataset)
        if self.shuffle:
            # Epochs are numbered by the values that set_epoch gave: without it every epoch is the first one.
            seen = epochs.setdefault(length, [])
            if self.epoch not in seen:
                seen.append(self.epoch)
            note_sampler(session, f"DistributedSampler {length}", value=f"seed {self.seed}")
            order = permutation(session, length, seen.index(self.epoch))
            order = order[: kept_length(session, length, None)]
        else:
            order = list(range(length))
        if len(order) < self.total_size:
            missing = self.total_size - len(order)
            order += (order * math.ceil(missing / len(order)))[:missing]
        order = order[: self.total_size]
        yield from _share(order, self.rank, self.num_replicas, getattr(self, "_verify_batch", 1))

    sampler.__init__, sampler.__iter__ = patched_init, iterate


def _share(order: list[int], rank: int, world: int, batch: int) -> Iterator[int]:
    """Rank's part of each global batch, contiguous as DataParallel's chunks; torch deals round robin: the same set."""
    whole = len(order) // (world * batch)
    for i in range(whole):
        begin = i * world * batch + rank * batch
        yield from order[begin : begin + batch]
    tail = order[whole * world * batch :]
    share = len(tail) // world
    yield from tail[rank * share : (rank + 1) * share]
