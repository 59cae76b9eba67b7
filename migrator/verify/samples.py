"""Samples that are made alike in both worlds: each with a seed of its own, whatever was drawn before.

In: the session.  Out: torch's fetcher of map-style data sets patched; sample numbers that remember their epoch.
"""

from __future__ import annotations

from typing import Any

import torch.utils.data as data
from torch.utils.data._utils import fetch as fetchers

from .determinism import changed, get_states, kept_states, set_seeds
from .session import Session

WATCHED_SAMPLES = 16  # samples of which it is noted which generators they use


class Sample(int):
    """A sample number that remembers its epoch on the way to a worker."""

    epoch: int

    def __new__(cls, number: int, epoch: int) -> Sample:
        made = int.__new__(cls, number)
        made.epoch = epoch
        return made

    def __reduce__(self) -> Any:
        return Sample, (int(self), self.epoch)


def numbers(dataset: Any, chosen: Any) -> list[Any] | None:
    """Sample numbers of the underlying data set, also through subsets; None where there are none."""
    items = chosen if isinstance(chosen, (list, tuple)) else [chosen]
    if any(x is None for x in items):
        return None  # an IterableDataset has no numbers
    return [root_number(dataset, x) for x in items]


def root_number(dataset: Any, number: Any) -> Any:
    """The number in the data set below all subsets; text where it is no number."""
    try:
        number = int(number)
        while isinstance(dataset, data.Subset):
            number, dataset = int(dataset.indices[number]), dataset.dataset
    except (TypeError, ValueError, IndexError):
        return repr(number)
    return number


def tagged(chosen: Any, epoch: int) -> Any:
    """Sample numbers, also in lists, with their epoch."""
    if isinstance(chosen, list):
        return [tagged(x, epoch) for x in chosen]
    if isinstance(chosen, int) and not isinstance(chosen, bool):
        return Sample(chosen, epoch)
    return chosen


def install(session: Session) -> None:
    """Patch the fetcher for good."""
    fetcher = fetchers._MapDatasetFetcher
    watched = 0

    def one(self: Any, number: Any) -> Any:
        nonlocal watched
        epoch = getattr(number, "epoch", 0)
        plain = int(number) if isinstance(number, Sample) else number
        with kept_states():
            set_seeds(session.settings.seed, "sample", epoch, root_number(self.dataset, plain))
            if watched >= WATCHED_SAMPLES:
                return self.dataset[plain]
            watched += 1
            states = get_states()
            item = self.dataset[plain]
            for generator in changed(states):
                # A file, because a worker process cannot write into the record.
                (session.folder / f"sampled.{session.settings.side}.{session.settings.rank}.{generator}").touch()
            return item

    def fetch(self: Any, chosen: Any) -> Any:
        session.fetching = True
        try:
            return made(self, chosen)
        finally:
            session.fetching = False

    def made(self: Any, chosen: Any) -> Any:
        if not self.auto_collation:
            return self.collate_fn(one(self, chosen))
        several = getattr(self.dataset, "__getitems__", None)
        if several and not isinstance(self.dataset, data.Subset):
            with kept_states():
                set_seeds(session.settings.seed, "samples", repr(chosen))
                return self.collate_fn(several([int(x) if isinstance(x, Sample) else x for x in chosen]))
        items = [one(self, x) for x in chosen]
        with kept_states():
            # A collate function that draws: equal where the samples are, whatever was drawn before.
            set_seeds(session.settings.seed, "collate", [root_number(self.dataset, x) for x in chosen])
            return self.collate_fn(items)

    fetcher.fetch = fetch
