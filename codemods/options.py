"""What the user chose about a conversion (see migrator.policies for the flags and settings behind it)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Options:
    """What the user chose; the defaults keep the training as it was."""

    target: Literal["ddp", "accelerate"] = "ddp"
    sampling: Literal["auto", "distributed", "batch", "call"] = "auto"
    loss: Literal["auto", "local", "global"] = "auto"
    evaluation: Literal["auto", "shard", "replicate"] = "auto"
    batch: Literal["global", "per-gpu"] = "global"
    amp: Literal["keep", "off", "bf16", "fp16"] = "keep"
    sync_bn: bool = False
    channels_last: bool = False
    find_unused: bool = False
    pg_timeout: int = 0
    master_port: int = 0
    nproc: int = 0
    nodes: int = 1
    seed_policy: Literal["per-rank", "same"] = "per-rank"
    keep_prefix: bool = False
    accumulate: bool = False
    ddp_arguments: tuple[str, ...] = ()  # `name=value`, of a DDP program that takes accelerate's form
    batch_of_process: bool = False  # its loaders name the batch of each process
    sampler_seed: str = ""  # that of its DistributedSampler, where it is a number
    unsafe: bool = False
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    model_name: str = ""  # under which the wrapped model is called, where its name leads nowhere
    train_loader: str = ""  # module.name of what a loop reads, where that is not in sight
    entry: tuple[str, ...] = ()  # files that start programs, from the folder of the settings
    scripts: bool = False  # also change launch lines in shell scripts and pages
    inline_helpers: bool = False  # also long ones, for runners that change one file at a time
