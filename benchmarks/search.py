"""The largest batch that a form's devices hold, by doubling and bisection.

In: a function that tries one per-device batch, and where to begin.  Out: a `LargestBatch`.  Each try is a start of its own, so that
nothing of a failed one is left.  Knows nothing of processes, and never imports torch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from benchmarks.results import Attempt, LargestBatch

Try = Callable[[int], Attempt]

MOST_TRIES = 24
MOST_TIMES = 256  # a batch so many times the program's own is no longer looked for
CLOSE = 16  # bisection ends within 1/16 of the largest that fits
CPU_TIMES = 4  # on a CPU: the program's own batch, and so many times it

# torch's CUDA allocator, cuBLAS and cuDNN, torch's CPU allocator, Python and C++.
_NO_MEMORY = re.compile(
    r"out of memory|OutOfMemoryError|STATUS_ALLOC_FAILED|can't allocate memory|not enough memory|bad_alloc|MemoryError",
    re.IGNORECASE,
)
REPEATED = (
    "batches are the program's own samples, repeated, and given again in each step: loading them is not in the throughput, and training "
    "with them would want another learning rate"
)
ON_A_CPU = (
    "on a CPU there is no device memory to fill, so the largest batch of a GPU cannot be told here: run it on the GPU. What can be told is "
    "how much the process grew per sample, in the CPU's kernels and precision"
)


def is_out_of_memory(text: str) -> bool:
    """True for an error that a smaller batch may not have."""
    return bool(_NO_MEMORY.search(text))


def find_largest(attempt: Try, own: int) -> LargestBatch:
    """Search from the program's own per-device batch; `attempt` answers for one batch."""
    tries: list[Attempt] = []

    def fits(batch: int) -> bool | None:
        """None: failed for another reason, and the search ends."""
        if len(tries) >= MOST_TRIES:
            return None
        tries.append(attempt(batch))
        return {"fits": True, "out-of-memory": False, "failed": None}[tries[-1].outcome]

    low, high, batch = 0, None, own
    while True:  # doubling, or halving where the program's own does not fit
        held = fits(batch)
        if held is None:
            break
        if held:
            low = batch
            if high is not None or batch * 2 > own * MOST_TIMES:
                break
            batch *= 2
        else:
            high = batch
            if low or batch == 1:
                break
            batch //= 2
    while high is not None and low and tries[-1].outcome != "failed" and high - low > max(1, low // CLOSE):
        middle = (low + high) // 2
        held = fits(middle)
        if held:
            low = middle
        elif held is False:
            high = middle
        else:
            break
    return _largest(tries, low, high)


def _largest(tries: Sequence[Attempt], low: int, high: int | None) -> LargestBatch:
    best = next((one for one in tries if one.outcome == "fits" and one.per_device_batch == low), None)
    broken = next((one for one in tries if one.outcome == "failed"), None)
    told = REPEATED
    if broken is not None:
        told = f"the search ended at {broken.per_device_batch}, for another reason than memory: {broken.error}"
    elif high is None:
        told = f"{low} still fits, and larger ones were not tried; {REPEATED}"
    elif best is None:
        told = f"not even {high} sample{'s' * (high != 1)} per device fit"
    # A batch that only some other fault ended is no bound: neither side of it is known.
    found = best is not None and broken is None
    return LargestBatch(
        per_device_batch=low if found else None,
        samples_per_s=best.samples_per_s if best is not None and found else None,
        too_large=high,
        bytes_per_sample=growth(tries),
        attempts=tuple(tries),
        told=told,
    )


def growth_on_cpu(attempt: Try, own: int) -> LargestBatch:
    """What a CPU can tell: memory per sample, between the program's own batch and a multiple of it."""
    tries = [attempt(own)]
    if tries[0].outcome == "fits":
        tries.append(attempt(own * CPU_TIMES))
    broken = next((one for one in tries if one.outcome != "fits"), None)
    told = ON_A_CPU if broken is None else f"{broken.per_device_batch} samples per process failed: {broken.error}"
    return LargestBatch(None, None, None, growth(tries), tuple(tries), told)


def growth(tries: Sequence[Attempt]) -> float | None:
    """Bytes per sample of the fullest device, between the smallest and the largest batch that fit; None where it did not grow."""
    seen = sorted((one.per_device_batch, one.memory_peak) for one in tries if one.memory_peak and one.outcome == "fits")
    if len(seen) < 2 or seen[-1][0] == seen[0][0] or seen[-1][1] <= seen[0][1]:
        return None
    return (seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0])
