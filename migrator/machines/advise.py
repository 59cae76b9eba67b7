"""`mgmigrate advise`: which form fits a program and its machines, and why.

In: what was read from a program (`Reading`) and a `Setting`.  Out: an `Advice`: the form, the runner-up,
reasons, the articles' thresholds judged, byte arithmetic and ranges.  Bounds, not promises: a speedup is never promised
without a measurement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from migrator.machines.advise_reading import Reading
from migrator.machines.estimates import (
    ARTICLE_CARDS,
    ARTICLE_LARGE,
    ARTICLE_SMALL,
    BUCKET,
    DP_SPEEDUP,
    FULL,
    TIGHT,
    Bound,
    Bytes,
    Optimizer,
    Setting,
    bounds,
    count_bytes,
)

Form = Literal["stay", "ddp", "accelerate", "fsdp", "model-parallel"]
NAMES: dict[str, str] = {
    "stay": "stay as it is",
    "ddp": "DistributedDataParallel under torchrun (mgmigrate convert --to ddp)",
    "accelerate": "Hugging Face accelerate (mgmigrate convert --to accelerate)",
    "fsdp": "FSDP (torch.distributed.fsdp.fully_shard): by hand, or accelerate with FSDP turned on",
    "model-parallel": "model parallel: torch.distributed.pipelining or tensor parallelism (torch.distributed.rpc for custom "
    "communication): by hand",
}


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do, why, and the figures behind it."""

    form: Form
    runner_up: Form | None
    reasons: tuple[str, ...]
    thresholds: tuple[str, ...]
    bytes: Bytes | None
    bounds: tuple[Bound, ...]
    setting: Setting | None
    unknown: tuple[str, ...] = field(default=())


# -------------------------------------------------------------------- choosing
def parse_count(text: str) -> int:
    """1.3B, 350M, 110e6, 25557032.  Raises ValueError."""
    found = re.fullmatch(r"\s*([\d.,_]+(?:[eE]\d+)?)\s*([KMBGT]?)\s*", text, re.IGNORECASE)
    if not found:
        raise ValueError(f"{text!r}: give a number of parameters, such as 350M or 1.3B")
    factor = {"": 1, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}[found[2].upper()]
    count = int(float(found[1].replace(",", "").replace("_", "")) * factor)
    if count < 1:
        raise ValueError(f"{text!r}: a model has at least one parameter")
    return count


def advise(
    reading: Reading, setting: Setting | None, gpus: int, nodes: int, portable: bool = False, link: str = "pcie"
) -> Advice:
    """Choose a form.  `setting` None: the number of parameters is not known, and only the structure speaks."""
    size = count_bytes(setting) if setting is not None else None
    form, runner_up, reasons = _choose(reading, setting, size, gpus, nodes, portable)
    unknown = []
    if setting is None:
        unknown.append("the number of parameters: give --params")
    elif setting.memory is None:
        unknown.append("the cards' memory: give --memory (GB of one card)")
    if setting is not None and size is not None and size.dp_gather is None:
        unknown.append("the bytes that DataParallel gathers: give --batch and --output-bytes (of one sample's outputs)")
    unknown.append(
        "activations, which often need more memory than all of the above: measure with mgmigrate bench --max-batch"
    )
    return Advice(
        form,
        runner_up,
        tuple(reasons),
        tuple(_thresholds(setting, gpus, nodes)),
        size,
        tuple(bounds(setting, link)) if setting is not None else (),
        setting,
        tuple(unknown),
    )


_Choice = tuple[Form, Form | None, list[str]]


def _choose(
    reading: Reading, setting: Setting | None, size: Bytes | None, gpus: int, nodes: int, portable: bool
) -> _Choice:
    world = gpus * nodes
    decided = _by_structure(reading, world)
    if decided is not None:
        return decided
    reasons = [f"{nodes} machines: DataParallel ends at one machine's door"] if nodes > 1 else []
    if size is not None and setting is not None and setting.memory:
        form, more = _by_memory(size, setting.memory, world)
        reasons += more
        if form is not None:
            return form, "fsdp" if form == "model-parallel" else "model-parallel", reasons
    if nodes == 1:
        reasons += _against_data_parallel(size)
    if reading.branches:
        reasons.append(
            f"a forward pass branches on its inputs ({reading.branches[0]}): ranks may use different parts in one step; DDP needs "
            "find_unused_parameters=True then, which no longer calls for an RPC framework"
        )
    names = {name for name, _ in reading.frameworks}
    if names & {"transformers.Trainer", "lightning"}:
        used = ", ".join(sorted(names & {"transformers.Trainer", "lightning"}))
        reasons.append(f"the program uses {used}, which does this itself when torchrun starts it: drop the wrap")
        return "ddp", "accelerate", reasons
    if "accelerate" in names or portable:
        why = (
            "uses accelerate already"
            if "accelerate" in names
            else "is to run unchanged on CPUs, one or many cards, or other hardware"
        )
        reasons.append(f"the program {why}")
        return "accelerate", "ddp", reasons
    return "ddp", "accelerate", reasons


def _by_structure(reading: Reading, world: int) -> _Choice | None:
    """What the program and the number of cards decide, whatever the size of the model."""
    cards = {card for card, _ in reading.devices}
    if len(cards) > 1:
        place = reading.devices[0][1]
        why = f"one module has parts on {len(cards)} devices ({', '.join(sorted(cards))}; {place})"
        reasons = [
            f"{why}: a wrapper that copies the module to each card would have to copy cards",
            "if the parts were only spread because they did not fit, FSDP does that without a plan of places",
        ]
        return "model-parallel", "fsdp", reasons
    past = {name for name, _ in reading.frameworks} & {"fsdp", "deepspeed", "rpc"}
    if past:
        return "stay", None, [f"the program uses {', '.join(sorted(past))} already: it is past DataParallel"]
    if not reading.trains:
        why = "the program only evaluates: no gradients are exchanged, and nothing is gained in training"
        return "stay", "ddp", [why]
    if world < 2:
        why = "one card: there is nothing to share; the converted program would run alone, at the same speed"
        return "stay", "ddp", [why]
    return None


def _by_memory(size: Bytes, memory: float, world: int) -> tuple[Form | None, list[str]]:
    """The form that is needed where the model's states do not fit on each card, and what they take of its `memory` in bytes."""
    share, sharded = size.ddp_each / memory, size.fsdp_each / memory
    shown = (
        f"parameters, gradients, buckets and optimizer need {gb(size.ddp_each)} of {gb(memory)} per card ({share:.0%})"
    )
    if share <= TIGHT.value:
        return None, [f"{shown}: it fits on each"]
    if share <= FULL.value:
        return None, [
            f"{shown}: it fits, but leaves little to activations; FSDP is the way out if the batch does not fit"
        ]
    reasons = [f"{shown}: above the {FULL.value:.0%} at which plain data parallelism ends in practice"]
    if sharded > FULL.value:
        why = f"sharded over {world} cards they still take {sharded:.0%}: more cards, or offloading, or a split model"
        return "model-parallel", [*reasons, why]
    return "fsdp", [*reasons, f"sharded over {world} cards they take {gb(size.fsdp_each)} ({sharded:.0%})"]


def _against_data_parallel(size: Bytes | None) -> Iterator[str]:
    """What one process per card saves on one machine."""
    if size is None:
        yield "one process per card: no copying of the module in each step, no main card, no shared interpreter lock"
        return
    more = f" + {gb(size.dp_gather)} of gathered outputs" if size.dp_gather else ""
    yield (
        f"under DataParallel the main card holds {gb(size.main_excess)} more than each other card (gradients, optimizer{more}), "
        f"and {gb(size.dp_moved)} pass through it in each step, none of it behind computation"
    )
    yield (
        f"DDP sends {gb(size.ddp_moved)} per card, most of it behind the backward pass, in buckets of {BUCKET.value / 2**20:.0f} MiB"
    )


def _thresholds(setting: Setting | None, gpus: int, nodes: int) -> Iterator[str]:
    """The articles' rule of choice on this case, and where it no longer holds."""
    count = setting.parameters if setting is not None else None
    small, large, cards = int(ARTICLE_SMALL.value), int(ARTICLE_LARGE.value), int(ARTICLE_CARDS.value)
    slow, quick = DP_SPEEDUP
    if count is not None and count < small and nodes == 1 and gpus <= cards:
        yield (
            f"the articles take DataParallel here (under {small // 10**6} M parameters, one machine, at most {cards} cards). No longer: "
            f"torch's own documentation recommends DDP on one machine too, published DataParallel runs gained from "
            f"{slow.value}× ({slow.source}) to {quick.value}× ({quick.source}), and the conversion is one command. "
            "For a script that runs once more, staying costs only time."
        )
    else:
        yield (
            f"the articles' {small // 10**6} M parameters, one machine and {cards} cards as the bound of DataParallel: not this case"
            if count is not None or nodes > 1 or gpus > cards
            else f"the articles take DataParallel under {small // 10**6} M parameters: cannot be judged without --params"
        )
    if count is None:
        yield f"the articles take DDP above {large // 10**9} B parameters or on several machines" + (
            ": the machines decide, DDP" if nodes > 1 else ": cannot be judged without --params"
        )
    elif count > large:
        size = count_bytes(Setting(count, gpus, nodes))
        yield (
            f"the articles take DDP above {large // 10**9} B parameters. A number of parameters alone does not decide any more: with Adam "
            f"{count / 1e9:.1f} B need {gb(size.states)} on every card under DDP, {gb(size.states + size.parameters)} with its buckets; FSDP "
            "shards them"
        )
    else:
        yield f"the articles take DDP above {large // 10**9} B parameters or on several machines: " + (
            "several machines, DDP" if nodes > 1 else "not needed as a reason; bytes and links decide"
        )
    yield "the articles send models with conditional branches to an RPC framework: DDP has find_unused_parameters=True for them"


def gb(size: float) -> str:
    """Decimal gigabytes or megabytes, as cards and links are sold."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def optimizer_of(reading: Reading) -> Optimizer:
    """The heaviest optimizer that the program builds; Adam where none was recognised."""
    return "momentum" if reading.optimizers and "adam" not in reading.optimizers else "adam"
