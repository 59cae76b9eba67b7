"""Bytes and bounds of data-parallel training, from a number of parameters; every constant names its source.

In: a `Setting`.  Out: `Bytes` (arithmetic) and `Bound`s (ranges under named assumptions: estimates, never measurements).
Nothing here looks at a machine or a program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Optimizer = Literal["adam", "momentum", "sgd"]


@dataclass(frozen=True, slots=True)
class Constant:
    """A number that an advice rests on, and where it is from."""

    value: float
    unit: str
    meaning: str
    source: str


FLOAT = Constant(4, "bytes", "of a float32 parameter, gradient or moment", "IEEE 754")
MOMENTS = {
    "adam": Constant(2, "float32 values per parameter", "Adam's two moments", "Kingma and Ba 2015, algorithm 1"),
    "momentum": Constant(1, "float32 values per parameter", "SGD's momentum buffer", "torch.optim.SGD"),
    "sgd": Constant(0, "float32 values per parameter", "plain SGD keeps nothing", "torch.optim.SGD"),
}
BUCKET = Constant(25 * 2**20, "bytes", "DDP's bucket_cap_mb", "torch.nn.parallel.DistributedDataParallel")
ARTICLE_SMALL = Constant(
    500e6,
    "parameters",
    "below it the articles take DataParallel, on one machine",
    "the articles' rule of choice (mission.md)",
)
ARTICLE_LARGE = Constant(
    1e9, "parameters", "above it the articles take DDP", "the articles' rule of choice (mission.md)"
)
ARTICLE_CARDS = Constant(
    4, "cards", "up to it the articles take DataParallel", "the articles' rule of choice (mission.md)"
)
FULL = Constant(
    0.70,
    "of a card's memory",
    "states that no plain data parallelism holds: 1.4 B parameters × 16 bytes on 32 GB",
    "Rajbhandari et al. 2020 (ZeRO), section 1: plain data parallelism runs out of memory above 1.4 B parameters on 32 GB",
)
TIGHT = Constant(
    0.35,
    "of a card's memory",
    "states that leave less than about two thirds to activations",
    "half of the ZeRO bound; our own margin",
)
# Bus bandwidth of an all-reduce, low and high end of what was published for each link.
LINKS = {
    "pcie": (
        Constant(8e9, "bytes/s", "slow end of all-reduce over PCIe", "facts/performance.md B2: DataParallel's 210 ms"),
        Constant(20e9, "bytes/s", "fast end of all-reduce over PCIe 4", "NVIDIA/nccl-tests#178"),
    ),
    "nvlink": (
        Constant(100e9, "bytes/s", "half of the published NVLink figure", "our own margin on nccl-tests#149"),
        Constant(200e9, "bytes/s", "all-reduce over NVLink of an A100", "NVIDIA/nccl-tests#149"),
    ),
    "network": (
        Constant(1.25e9, "bytes/s", "line rate of 10 Gbit/s Ethernet", "10 Gbit/s ÷ 8"),
        Constant(25e9, "bytes/s", "line rate of one 200 Gbit/s InfiniBand port", "200 Gbit/s ÷ 8"),
    ),
}
DDP_EFFICIENCY = (
    Constant(
        0.42,
        "of linear",
        "lowest published DDP efficiency on one machine",
        "Lambda csv: BERT-large, 8× A100 (facts/performance.md B1)",
    ),
    Constant(
        0.99,
        "of linear",
        "highest published DDP efficiency on one machine",
        "Lambda v2 csv: ResNet-50, 4× H100 (facts/performance.md B1)",
    ),
)
DP_SPEEDUP = (
    Constant(
        0.6,
        "×",
        "DataParallel slower than one card",
        "MIC-DKFZ/nnUNet#795: 4× A100, 49 s alone, 82 s with DataParallel",
    ),
    Constant(1.13, "×", "DataParallel on two cards", "walkerning/aw_nas#17: 27 s alone, 24 s"),
)
# Parameters of models that programs build by name.
KNOWN_MODELS = {
    "alexnet": 61_100_840,
    "densenet121": 7_978_856,
    "efficientnet_b0": 5_288_548,
    "mobilenet_v2": 3_504_872,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "vgg16": 138_357_544,
    "vit_b_16": 86_567_656,
    "wide_resnet50_2": 68_883_240,
}
KNOWN_SOURCE = "torchvision's table of weights (num_params)"
PRETRAINED_MODELS = {
    "bert-base": 110_000_000,
    "bert-large": 340_000_000,
    "gpt2-medium": 345_000_000,
    "gpt2-xl": 1_542_000_000,
    "roberta-base": 125_000_000,
    "roberta-large": 355_000_000,
}
PRETRAINED_SOURCE = "the models' papers (Devlin 2019, Radford 2019, Liu 2019), rounded as there"


@dataclass(frozen=True, slots=True)
class Setting:
    """What is to be trained, and on what.  `memory` is bytes of one card; None: not known."""

    parameters: int
    gpus: int  # of one node
    nodes: int = 1
    memory: int | None = None
    optimizer: Optimizer = "adam"
    batch: int | None = None  # global
    output_bytes: int | None = None  # of one sample's outputs

    @property
    def world(self) -> int:
        return self.gpus * self.nodes


@dataclass(frozen=True, slots=True)
class Bytes:
    """What lies where and what moves per step, in bytes; activations, which decide as much, are not in it."""

    parameters: int
    gradients: int
    optimizer: int
    buckets: int  # DDP's flattened gradients, without gradient_as_bucket_view
    dp_main: int  # states on DataParallel's main card
    dp_other: int  # on its other cards, during a step
    dp_gather: int | None  # outputs gathered on the main card per step; None: outputs or batch unknown
    dp_moved: int  # into and out of the main card per step: broadcast and reduced gradients
    ddp_each: int
    ddp_moved: int  # sent by each card per step: ring all-reduce
    fsdp_each: int  # states sharded over all cards, without the layers that are gathered in passing

    @property
    def states(self) -> int:
        return self.parameters + self.gradients + self.optimizer

    @property
    def main_excess(self) -> int:
        """How much more DataParallel's main card holds than each of the others."""
        return self.dp_main - self.dp_other + (self.dp_gather or 0)


@dataclass(frozen=True, slots=True)
class Bound:
    """A range under assumptions: an estimate."""

    name: str
    low: float
    high: float
    unit: str
    assumptions: tuple[str, ...]


def count_bytes(setting: Setting) -> Bytes:
    """Arithmetic on float32 training (mixed precision keeps float32 parameters, gradients and moments as well)."""
    one = int(FLOAT.value) * setting.parameters
    moments = int(MOMENTS[setting.optimizer].value) * one
    others = setting.gpus - 1
    known = setting.batch is not None and setting.output_bytes is not None
    gather = (setting.batch or 0) * (setting.output_bytes or 0) if known else None
    world = setting.world
    return Bytes(
        parameters=one,
        gradients=one,
        optimizer=moments,
        buckets=one if world > 1 else 0,
        dp_main=2 * one + moments,
        dp_other=one if others else 0,  # a replica's gradients go to the main card as they come
        dp_gather=gather,
        dp_moved=2 * others * one,
        ddp_each=2 * one + moments + (one if world > 1 else 0),
        ddp_moved=2 * (world - 1) * one // world,
        fsdp_each=(2 * one + moments) // world,
    )


def bounds(setting: Setting, link: str) -> list[Bound]:
    """Ranges that can be given without running anything."""
    size = count_bytes(setting)
    if setting.world < 2:
        return []
    slow, fast = LINKS["network" if setting.nodes > 1 else link]
    seconds = (size.ddp_moved / fast.value, size.ddp_moved / slow.value)
    found = [
        Bound(
            "DDP: one all-reduce of all gradients",
            seconds[0] * 1000,
            seconds[1] * 1000,
            "ms per step",
            (
                f"a ring over {setting.world} cards at {fast.value / 1e9:g} to {slow.value / 1e9:g} GB/s ({fast.source}; {slow.source})",
                "exposed: between its last bucket (hidden behind the backward pass) and all of it (not hidden)",
            ),
        )
    ]
    if setting.nodes == 1:
        found.append(
            Bound(
                "DataParallel: parameters out, gradients in, through the main card",
                size.dp_moved / fast.value * 1000,
                size.dp_moved / slow.value * 1000,
                "ms per step",
                ("nothing of it is hidden behind computation", "the same links, all into one card"),
            )
        )
        low, high = DDP_EFFICIENCY
        found.append(
            Bound(
                "DDP: speedup over one card",
                low.value * setting.gpus,
                high.value * setting.gpus,
                "×",
                (f"published efficiencies, {low.value:.0%} ({low.source}) to {high.value:.0%} ({high.source})",),
            )
        )
    return found


def calibrated(alone: float, reduction: float | None, devices: int) -> list[Bound]:
    """Bounds from a measured step on one device and a measured gradient synchronisation (both ms), at the same global batch.

    `reduction` None: it was not measured, and only the upper bound is left.
    """
    if devices < 2 or alone <= 0:
        return []
    ideal = alone / devices
    slow = ideal + (reduction if reduction is not None else alone)
    told = (
        f"measured: one device takes {alone:.4g} ms for the whole global batch",
        f"computation divides by {devices} (smaller batches often use a device less well: then it is less)",
        f"measured: gradient synchronisation of {reduction:.4g} ms, hidden (high) to fully exposed (low)"
        if reduction is not None
        else "no synchronisation was measured: low is no gain at all",
    )
    return [
        Bound(
            "DDP: speedup over one device, same global batch",
            alone / slow if reduction is not None else 1.0,
            alone / ideal,
            "×",
            told,
        )
    ]
