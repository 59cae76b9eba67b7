"""How a program shares its batches in accelerate's form, where that is not as in the DDP form.

In: the program, the options and the way that was chosen from its facts.  Out: the way to take.
"""

from __future__ import annotations

from dataclasses import replace

from codemods.base import Context
from codemods.options import Options
from migrator.facts.accelerate.handing import prepared_places
from migrator.facts.program import Program
from migrator.facts.training.reading import read_training
from migrator.facts.training.sharing import Sharing

_SPLIT = "the batch is split where the model is called, as DataParallel split it"


def accelerated(program: Program, options: Options, chosen: Sharing) -> Sharing:
    """The chosen way, or the split at the call where accelerate has no exact form of it."""
    sharing = _of_process(program, options) or chosen
    training = sharing.training
    if training is None or sharing.way not in ("distributed", "batch"):
        return sharing
    if sharing.way == "batch" and options.batch == "per-gpu":
        return Sharing("call", f"{_SPLIT}{_why(sharing)}")
    if training.others:
        return Sharing("call", f"{_SPLIT} (there is more than one training loop)")
    context = Context(program, sharing, options)
    places = [*prepared_places(program, training, sharing.way == "distributed")]
    places += [training.whole.call] if training.whole is not None else []
    if not all(context.accelerator(at) for at in places):
        return Sharing("call", f"{_SPLIT} (the Accelerator could not be handed to where model and loader are made)")
    return sharing


def _of_process(program: Program, options: Options) -> Sharing | None:
    """A DDP program's loaders name the batch of a process: what was computed of a share is still computed of a share."""
    if not options.batch_of_process:
        return None
    training = read_training(program, "local", options.find_unused)
    if not training.loaders or training.loop is None:
        return None
    return Sharing("distributed", "each process loads its own batches", replace(training, whole=None))


def _why(sharing: Sharing) -> str:
    """The obstacle, with its place."""
    return sharing.reason[len(sharing.reason.partition(" (")[0]) :]
