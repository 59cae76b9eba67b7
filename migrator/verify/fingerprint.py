"""Short descriptions of tensors from which the distance of two tensors can be estimated without keeping either.

In: a tensor.  Out: [norm, projection, projection], where the projections are onto fixed vectors of signs: for two
tensors a and b, the root mean square of the projections' differences estimates ||a - b||.  `rows` gives one number per
row of a batch, by which equal samples are recognised wherever they turn up.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

BLOCK = 1 << 16
PROJECTIONS = 2
MAX_ROWS = 8192


@cache
def _signs(count: int, salt: int, dtype: Any) -> Any:
    generator = torch._C.Generator()
    generator.manual_seed(count * 16 + salt)
    return torch.randint(0, 2, (count,), generator=generator).mul_(2).sub_(1).to(dtype)


def describe(tensor: Any) -> list[float]:
    """[norm, projection 1, projection 2], computed in the tensor's own precision (float32 at least)."""
    with torch.no_grad():
        x = _plain(tensor)
        if x.is_sparse:
            x = x.to_dense()
        if x.is_complex():
            x = torch.view_as_real(x)
        x = x.reshape(-1)
        if x.dtype not in (torch.float32, torch.float64):
            x = x.to(torch.float32 if x.is_floating_point() else torch.float64)
        whole = x.numel() // BLOCK
        values = [0.0] * PROJECTIONS
        for p in range(PROJECTIONS):
            if whole:
                # The signs of a long tensor are products of signs between and within blocks: small to keep.
                folded = _signs(whole, 2 * p, x.dtype) @ x[: whole * BLOCK].view(whole, BLOCK)
                values[p] += float(torch.dot(folded, _signs(BLOCK, 2 * p + 1, x.dtype)))
            if rest := x.numel() - whole * BLOCK:
                values[p] += float(torch.dot(x[whole * BLOCK :], _signs(rest, 8 + p, x.dtype)))
        return [float(torch.linalg.vector_norm(x)), *values]


def tensors_in(value: Any, name: str = "") -> list[tuple[str, Any]]:
    """All tensors in a nest of lists, tuples and dictionaries, with their place in it."""
    if isinstance(value, torch.Tensor):
        return [(name, value)]
    if isinstance(value, dict) or (hasattr(value, "items") and callable(value.items)):
        return [found for key, part in value.items() for found in tensors_in(part, f"{name}.{key}")]
    if isinstance(value, (list, tuple)):
        return [found for i, part in enumerate(value) for found in tensors_in(part, f"{name}.{i}")]
    return []


def _plain(tensor: Any) -> Any:
    """The tensor without the methods of a class of the program's own."""
    return tensor.detach().as_subclass(torch.Tensor)


def chunk(inputs: Any, keywords: Any, dim: int = 0) -> dict[str, Any]:
    """What one replica was given: {"n": rows, "width": numbers per row, "rows": [one number per row]}."""
    with torch.no_grad():
        found = [(n, _plain(t)) for n, t in tensors_in((inputs, keywords)) if t.dim() > 0]
        if not found:
            return {"n": None, "width": 0, "rows": []}
        found = [(n, t.transpose(0, dim) if t.dim() > dim else t) for n, t in found]
        count = int(found[0][1].shape[0])
        total = torch.zeros(count, dtype=torch.float64)
        width = 0
        for place, (_, tensor) in enumerate(found):
            if tensor.shape[0] != count or count == 0 or tensor.is_complex():
                continue
            # A sample may hold NaN or infinity: any number stands for it, as long as it is the same on both sides.
            flat = tensor.reshape(count, -1).to(torch.float64).nan_to_num(nan=0.577, posinf=1.618, neginf=-1.618)
            width += int(flat.shape[1])
            total += flat @ _weights(int(flat.shape[1]), place)
        return {"n": count, "width": width, "rows": total.tolist() if count <= MAX_ROWS else [float(total.sum())]}


@cache
def _weights(count: int, place: int) -> Any:
    generator = torch._C.Generator()
    generator.manual_seed(count * 16 + place)
    return torch.randn(count, generator=generator, dtype=torch.float64)
