"""What the text of a program says of how it has to be run: how its epochs may be cut, and what it imports.

In: a `VerifyRequest`.  Out: settings for its runs.  Nothing is executed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from .settings import VerifyRequest

CUTTER = "def gather_batch("
SPLIT_AT_CALL = "class SplitDataParallel"
SPLITTERS = ("class SplitBatchSampler", "class ProcessBatchSampler")


def trim_unit(request: VerifyRequest) -> int:
    """What a shuffled epoch is cut to a multiple of, so that the converted loader has no rest to fill up."""
    if request.after is None:
        return 1
    text = "\n".join(_sources(request.after))
    if "Accelerator(" in text and ".prepare(" in text and "process_batches(" not in text:
        return 1 if CUTTER in text else 0  # accelerate fills the last batch: whole batches only, unless it is cut again
    return request.devices if "DistributedSampler" in text else 1


def pads_batches(request: VerifyRequest) -> bool:
    """Whether batches are split by the generated sampler, which fills up those that do not divide."""
    return request.after is not None and any(name in text for text in _sources(request.after) for name in SPLITTERS)


def wraps_wholes(request: VerifyRequest) -> bool:
    """True where the converted program splits no batch at a call."""
    return request.after is not None and not any(SPLIT_AT_CALL in text for text in _sources(request.after))


def cuts_batches(request: VerifyRequest) -> bool:
    """Whether what fills up a prepared loader's last batch is cut off before the loss sees it."""
    return request.after is not None and any(CUTTER in text for text in _sources(request.after))


def preload(request: VerifyRequest) -> tuple[str, ...]:
    """Large modules that the program names: imported once, before the forks."""
    wanted = ["numpy"]
    texts = [*_sources(request.before), *(_sources(request.after) if request.after is not None else ())]
    for word, name in (
        ("torchvision", "torchvision"),
        ("transformers", "transformers"),
        ("from accelerate import", "accelerate"),
        ("tensorboard", "torch.utils.tensorboard"),
    ):
        if any(word in text for text in texts):
            wanted.append(name)
    return tuple(wanted)


def _sources(after: Path) -> Iterator[str]:
    for path in [after] if after.is_file() else sorted(after.rglob("*.py"))[:500]:
        with contextlib.suppress(OSError):
            yield path.read_text(errors="replace")
