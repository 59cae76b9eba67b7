"""Equal order of the data in both worlds: permutations, shares, samples and batches.

In: the session.  Out: torch's samplers, loader iterators and fetchers patched: a shuffled epoch is a permutation of (length,
epoch); rank r reads what replica r read; each sample is made with a seed of its own; each delivered batch is recorded and
pins the program's generators.  Epochs of shuffled loaders are cut to a few batches and their last one.  Never changes which
indices a sampler of the program's own chooses, and repeats the mistakes of the converted program (a missing `set_epoch`,
unequal seeds) instead of curing them.
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch
import torch.utils.data as data
from torch.utils.data import dataloader as loaders

from . import samplers, samples
from .determinism import Stream, note_natural, pin
from .replay import replayed
from .samplers import note_sampler
from .samples import numbers, tagged
from .session import Session

ENDLESS = 10_000_000  # samplers without an end give such lengths


def install(session: Session) -> None:
    """Patch samplers, loaders and fetchers for good."""
    samplers.install(session)
    _patch_loader(session)
    samples.install(session)


def reads_everything(loader: Any) -> bool:
    """Whether a loader takes its samples from torch's own samplers, with nothing between that deals them out."""
    return type(loader.batch_sampler) in (data.BatchSampler, type(None)) and type(loader.sampler) is data.RandomSampler


def _shuffles(sampler: Any, depth: int = 0) -> bool:
    """Whether a chain of samplers draws its order: then it is a training loader, whose epochs are cut."""
    if sampler is None or depth > 6:
        return False
    if isinstance(sampler, data.distributed.DistributedSampler):
        return bool(sampler.shuffle)
    if isinstance(sampler, data.SequentialSampler):
        return False
    inner = [getattr(sampler, name, None) for name in ("sampler", "batch_sampler", "base", "inner")]
    known = [x for x in inner if x is not None]
    return any(_shuffles(x, depth + 1) for x in known) if known else True


def _tell_batch(sampler: Any, batch: int | None) -> None:
    for _ in range(6):
        if sampler is None:
            return
        if isinstance(sampler, (data.RandomSampler, data.distributed.DistributedSampler)):
            sampler._verify_batch = batch or 1
            return
        batch = getattr(sampler, "batch_size", None) or batch
        inner = getattr(sampler, "sampler", None)
        sampler = getattr(sampler, "batch_sampler", None) if inner is None else inner


def cut(batches: Iterator[Any], limit: int) -> Iterator[Any]:
    """The first `limit` - 1 batches and the last one: an epoch that ends as the whole one does."""
    for _ in range(limit - 1):
        try:
            yield next(batches)
        except StopIteration:
            return
    rest = collections.deque(batches, maxlen=1)
    yield from rest


def _patch_loader(session: Session) -> None:
    loader, iterator = data.DataLoader, loaders._BaseDataLoaderIter
    init, length = loader.__init__, loader.__len__
    start, reset, following, index = iterator.__init__, iterator._reset, iterator.__next__, iterator._next_index
    limit = session.settings.epoch_batches

    def patched_init(self: Any, *arguments: Any, **keywords: Any) -> None:
        if keywords.get("multiprocessing_context") is not None:
            keywords["multiprocessing_context"] = None  # workers must be forks: they inherit the patches
        init(self, *arguments, **keywords)
        own = self.batch_sampler  # never asked for its truth: an endless one has no length
        _tell_batch(self.sampler if own is None else own, self.batch_size)
        if type(self.sampler) is data.RandomSampler:
            self.sampler._verify_whole = reads_everything(self)

    def finite(self: Any) -> bool:
        try:
            return len(self._index_sampler) < ENDLESS
        except (TypeError, NotImplementedError):
            return False

    def is_cut(self: Any) -> bool:
        if self._dataset_kind == loaders._DatasetKind.Iterable:
            return False
        return limit > 0 and finite(self) and _shuffles(self._index_sampler)

    def count(self: Any) -> int:
        whole = int(length(self))
        return min(whole, limit) if is_cut(self) else whole

    def open_samples(self: Any, of: Any) -> None:
        note_natural(session)
        name = f"loader {len(of.dataset) if hasattr(of.dataset, '__len__') else '?'}"
        self._verify_epoch = of.__dict__.setdefault("_verify_epochs", 0)
        of.__dict__["_verify_epochs"] += 1
        self._verify_queue = collections.deque()
        self._verify_loader = of
        session.counters["workers"] += int(of.num_workers > 0)
        self._verify_shuffles = _shuffles(of._index_sampler)
        self._verify_name, self._verify_noted = f"sampler of a {name}", False
        self._verify_stream = Stream(session, "sampler", name, self._verify_epoch)
        if is_cut(of):
            self._sampler_iter = cut(self._sampler_iter, limit)

    def patched_start(self: Any, of: Any) -> None:
        start(self, of)
        open_samples(self, of)

    def patched_reset(self: Any, of: Any, first_iter: bool = False) -> None:
        fresh = not hasattr(self, "_verify_stream") or self._num_yielded > 0
        reset(self, of, first_iter)
        if fresh:
            open_samples(self, of)
        elif is_cut(of):
            self._sampler_iter = cut(self._sampler_iter, limit)

    def patched_index(self: Any) -> Any:
        with self._verify_stream.drawn_from():
            chosen = index(self)
        if self._verify_stream.used and not self._verify_noted:
            self._verify_noted = True
            whole = reads_everything(self._verify_loader)
            note_sampler(session, self._verify_name, uses=self._verify_stream.used, whole=whole)
        self._verify_queue.append(numbers(self._dataset, chosen))
        return tagged(chosen, self._verify_epoch)

    def patched_next(self: Any) -> Any:
        ahead = _reads_ahead(sys._getframe(1))
        try:
            batch = following(self)
        except StopIteration:
            _deliver_held(session, self)
            raise
        ids = self._verify_queue.popleft() if self._verify_queue else None
        if session.foreign:
            return batch
        if torch.is_grad_enabled():
            batch = replayed(session, self._verify_loader, batch, ids, self._verify_epoch, self._num_yielded - 1)
        if not ahead:
            return deliver(session, batch, ids, self._verify_epoch, self._verify_shuffles)
        _deliver_held(session, self)
        self._verify_held = (batch, ids)
        return batch

    loader.__init__, loader.__len__ = patched_init, count
    iterator.__init__, iterator._reset = patched_start, patched_reset
    iterator.__next__, iterator._next_index = patched_next, patched_index
    iterator.__len__ = lambda self: len(self._index_sampler)


def _reads_ahead(caller: FrameType | None) -> bool:
    """True for a loader that accelerate prepared: it reads a batch before it hands on the one before."""
    while caller is not None and caller.f_globals.get("__package__") == __package__:  # other patches of the method
        caller = caller.f_back
    if caller is None or caller.f_code.co_name != "__iter__":
        return False
    return caller.f_globals.get("__name__") == "accelerate.data_loader"


def _deliver_held(session: Session, iterator: Any) -> None:
    """The batch that is handed on after this one was read."""
    held, iterator._verify_held = getattr(iterator, "_verify_held", None), None
    if held is not None and not session.foreign:
        batch, ids = held
        deliver(session, batch, ids, iterator._verify_epoch, iterator._verify_shuffles)


def deliver(session: Session, batch: Any, ids: list[Any] | None, epoch: int, shuffles: bool) -> Any:
    """A batch reaches the program: it is noted, and the generators are pinned for what the loop draws."""
    if torch.is_grad_enabled():
        session.latest_batch, session.latest_rows = ids, rows_of(batch)
        if ids is not None:
            session.batches.append(ids)
        session.second_epoch = session.second_epoch or (shuffles and epoch > 0)
        pin(session, "batch", session.step, session.delivered)
        session.delivered += 1
    elif ids is not None:
        session.read_samples.extend(ids)
    return batch


def rows_of(batch: Any) -> int | None:
    """The number of rows of the first tensor in a batch."""
    if isinstance(batch, torch.Tensor):
        return int(batch.shape[0]) if batch.dim() else None
    parts: Any = ()
    if isinstance(batch, dict) or callable(getattr(batch, "values", None)):
        parts = batch.values()
    elif isinstance(batch, (list, tuple)):
        parts = batch
    for part in parts:
        rows = rows_of(part)
        if rows is not None:
            return rows
    return None
