"""How many samples a batch holds, and the same batch with another number of them.

In: whatever a loader gives: tensors in lists, tuples, dictionaries.  Out: numbers, and batches of the same shape.
"""

from __future__ import annotations

import copy
from typing import Any

import torch

ROWS_DEPTH = 4


def rows_of(batch: Any, depth: int = 0) -> int:
    """Samples of a batch: the first dimension of its first tensor; 0 where there is none."""
    if isinstance(batch, torch.Tensor):
        return int(batch.shape[0]) if batch.dim() else 0
    if depth >= ROWS_DEPTH:
        return 0
    if hasattr(batch, "values") and callable(batch.values):
        parts: Any = list(batch.values())
    elif isinstance(batch, (list, tuple)):
        parts = batch
    else:
        return 0
    for part in parts:
        found = rows_of(part, depth + 1)
        if found:
            return found
    return 0


def repeat_rows(value: Any, have: int, wanted: int) -> Any:
    """The same batch with `wanted` samples instead of `have`: its samples again and again, or the first of them."""
    if isinstance(value, torch.Tensor):
        if not value.dim() or value.shape[0] != have:
            return value
        made = value[torch.arange(wanted, device=value.device) % have]
        return made.pin_memory() if value.is_pinned() else made
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(repeat_rows(one, have, wanted) for one in value))
    if isinstance(value, (list, tuple)):
        if len(value) == have and not any(rows_of(one) == have for one in value):  # a list with an entry per sample
            return type(value)(value[i % have] for i in range(wanted))
        return type(value)(repeat_rows(one, have, wanted) for one in value)
    if hasattr(value, "items") and hasattr(value, "__setitem__"):
        made = copy.copy(value)
        for key, one in list(value.items()):
            made[key] = repeat_rows(one, have, wanted)
        return made
    return value
