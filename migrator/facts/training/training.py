"""What is known of a program's training: its loaders, loops, figures and evaluations, and what speaks against shares.

Frozen facts with the places that they are about; `migrator.facts.training.reading` fills them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from migrator.facts.model import Place
from migrator.facts.python.syntax import Span
from migrator.facts.steps.whole_batch import WholeBatch


@dataclass(frozen=True, slots=True)
class Loader:
    """A DataLoader call and its arguments; spans are None where an argument is absent."""

    at: Span
    statement: Span
    name: str
    dataset: Span
    dataset_text: str
    dataset_is_call: bool
    batch: Span | None
    batch_text: str
    shuffle: Span | None
    shuffle_keyword: bool
    has_none_sampler: bool
    shuffled: bool | None
    drop_last: str | None
    workers: Span | None
    workers_text: str
    sampler: Span | None = None  # a RandomSampler, which does what `shuffle=True` does
    keeps_order: bool = False  # by a SequentialSampler


@dataclass(frozen=True, slots=True)
class Meter:
    """Running figures of a loop: kind is object (sum, count, avg), sum or mean; `names` as spelled in the function."""

    kind: str
    names: tuple[str, ...]
    after: Span


@dataclass(frozen=True, slots=True)
class EvaluationLoop:
    """A loop over another loader without a backward pass; `share` says that every figure in it is recognised."""

    at: Span
    loader: Loader | None
    meters: tuple[Meter, ...]
    share: bool
    model_calls: tuple[Span, ...]
    why_not: str = ""
    networks: tuple[str, ...] = ()  # that it runs without their wrapper, so that each process has its own statistics
    listings: tuple[Span, ...] = ()  # lists of files that loops around it go over, which are to be alike for `averaged`
    averaged: tuple[Span, ...] = ()  # of its calls those whose outputs, one for each device, are averaged or added up


@dataclass(slots=True)
class Training:
    """What is known of the training; with obstacles the other fields may be missing."""

    loaders: list[Loader] = field(default_factory=list)
    loop: Span | None = None
    epoch_loop: Span | None = None
    epoch_first: Span | None = None
    epoch_name: str = ""
    epoch_unnamed: Span | None = None  # `_`, where nothing asks for the number of the epoch
    loader_in_epoch_scope: str = ""
    meters: tuple[Meter, ...] = ()
    loss: str = ""
    whole: WholeBatch | None = (
        None  # where the loop goes on with the whole batch; without it, with this process's share
    )
    evaluations: list[EvaluationLoop] = field(default_factory=list)
    obstacles: list[Place] = field(default_factory=list)
    left_out: list[Place] = field(default_factory=list)  # why a step may leave parameters out
    drawn_once: list[Place] = field(default_factory=list)  # what a step draws for the whole batch, one number or choice
    drawn: list[Place] = field(default_factory=list)  # random rows that a process draws for its own samples
    others: list[Training] = field(
        default_factory=list
    )  # of loops beside this one: epochs and where batches become whole
    order_obstacles: list[Place] = field(default_factory=list)  # against a DistributedSampler only
    # `loader.sampler` whose length is asked: the text is the loader's, a note says that its batch sampler is an own one
    sampler_lengths: list[Place] = field(default_factory=list)
