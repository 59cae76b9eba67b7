"""Published throughputs of one GPU, below which a run of the same model is more likely slow than the GPU.

Only the lowest published precision of a card is an anchor: faster ones say nothing about a float32 run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# A good run stays within this of a published one: 0.85 × 938 is the 800 images/s of facts/performance.md, B2.
TOLERANCE = 0.85


@dataclass(frozen=True, slots=True)
class Anchor:
    """Samples per second of one GPU in training."""

    gpu: str  # pattern of the GPU's name
    model: str
    samples_per_s: float
    conditions: str
    source: str


ANCHORS = (
    Anchor("A100", "resnet50", 938, "TF32, 224 × 224, 256 per GPU", "NVIDIA DeepLearningExamples, DGX A100 80 GB"),
    Anchor("V100", "resnet50", 329, "FP32, 224 × 224, 32 per GPU", "pytorch benchmarks/distributed/ddp, DGX V100"),
    Anchor("4090", "resnet50", 721, "TF32, 224 × 224", "Lambda csv, RTX 4090"),
    Anchor("A100", "bert-base", 239, "TF32, SQuAD (384 tokens), 172 per GPU", "Lambda csv, A100 80 GB SXM"),
    Anchor("V100", "bert-base", 42, "FP32, SQuAD (384 tokens)", "Lambda csv, V100 16 GB"),
    Anchor("4090", "bert-base", 137, "TF32, SQuAD (384 tokens)", "Lambda csv, RTX 4090"),
    Anchor(
        "A100",
        "bert-large",
        61.5,
        "TF32, SQuAD (384 tokens), 32 per GPU",
        "NVIDIA DeepLearningExamples, DGX A100 80 GB",
    ),
    Anchor("V100", "bert-large", 12, "FP32, SQuAD (384 tokens)", "Lambda csv, V100 16 GB"),
    Anchor("4090", "bert-large", 44, "TF32, SQuAD (384 tokens)", "Lambda csv, RTX 4090"),
)


def find_anchor(gpu: str, model: str | None) -> Anchor | None:
    """The anchor of a model on a card, by the card's name."""
    return next((a for a in ANCHORS if a.model == model and re.search(rf"\b\w*{a.gpu}\b", gpu)), None)
