"""The reference trainers as benchmarks: which program, with which arguments.  Random data; nothing is downloaded.

On a GPU the global batch fits one card of 24 GB (ResNet-50 saves 86 MB per image in float32: 256 are 22 GB, facts/performance.md B2).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "reference_trainers"


@dataclass(frozen=True, slots=True)
class Reference:
    """A trainer, its arguments, and its global batch on GPUs and on the CPU."""

    program: str
    arguments: tuple[str, ...]
    samples: str  # option that takes the number of samples of an epoch
    gpu_batch: int
    cpu_batch: int
    model: str | None = None  # name that anchors are known by


REFERENCES = {
    "resnet50": Reference(
        "resnet_dp.py", ("--arch", "resnet50", "--synthetic"), "--synthetic-samples", 256, 8, "resnet50"
    ),
    "bert-base": Reference(
        "bert_dp.py", ("--size", "base", "--synthetic", "--max-length", "384"), "--samples", 32, 4, "bert-base"
    ),
    "bert-large": Reference(
        "bert_dp.py", ("--size", "large", "--synthetic", "--max-length", "384"), "--samples", 16, 2, "bert-large"
    ),
    "small": Reference(
        "resnet_dp.py",
        ("--arch", "resnet8", "--synthetic", "--image-size", "32", "--num-classes", "10"),
        "--synthetic-samples",
        256,
        32,
    ),
    "bert-tiny": Reference("bert_dp.py", ("--size", "tiny", "--synthetic", "--max-length", "32"), "--samples", 64, 16),
}


def program_of(name: str) -> Path:
    return FOLDER / REFERENCES[name].program


def arguments_of(name: str, steps: int, cuda: bool, batch: int | None = None, workers: int | None = None) -> list[str]:
    """Arguments for an epoch that is longer than all the steps that are looked at."""
    reference = REFERENCES[name]
    size = batch or (reference.gpu_batch if cuda else reference.cpu_batch)
    loaders = workers if workers is not None else 4 if cuda else 0
    return [
        *reference.arguments,
        "--batch-size",
        str(size),
        reference.samples,
        str(size * (steps + 4)),
        "--workers",
        str(loaders),
        "--epochs",
        "1",
        "--out",
        "bench-out",
    ]
