"""Batches of collate functions that pad or draw: the original's are kept, and each rank gets its share of them.

In: the session, and a batch on its way to the program.  Out, on the original's side: the first batches of loaders with a
collate function of the program's own, in files; on the converted side: the rank's share of the original's batch where it read
a part of the same samples and its own batch differs from that share (it was padded to another length, or drawn anew).  Never
replaces a batch of other samples: those are a difference to report.
"""

from __future__ import annotations

import pickle
from typing import Any

import torch
from torch.utils.data import default_collate

from .session import Session

BATCHES_MOST = 64
BYTES_MOST = 64 << 20


def replayed(session: Session, loader: Any, batch: Any, ids: list[Any] | None, epoch: int, number: int) -> Any:
    """The batch that the program gets; `number` counts the loader's batches in this epoch."""
    if ids is None or loader is None or number >= BATCHES_MOST or _plain(loader):
        return batch
    path = session.folder / "states" / f"batch.{len(loader.dataset)}.{epoch}.{number}.pkl"
    if not session.after:
        if not path.exists():
            _keep(path, ids, batch)
        return batch
    if not path.exists():
        return batch
    with path.open("rb") as file:
        whole_ids, whole = pickle.load(file)
    place = _place(ids, whole_ids)
    if place is None or len(ids) == len(whole_ids):
        return batch
    share = _cut(whole, place, len(ids), len(whole_ids))
    if _same(share, batch) or not _alike(share, batch):
        return batch
    if session.ordinal("replayed batches") == 0:
        session.record(
            "note",
            text="the collate function pads or draws by the whole batch: each rank was given its share of the original's"
            " batches (an inherent difference otherwise)",
        )
    return share


def _plain(loader: Any) -> bool:
    return loader.collate_fn is default_collate or not loader._auto_collation


def _keep(path: Any, ids: list[Any], batch: Any) -> None:
    try:
        data = pickle.dumps((ids, batch))
    except Exception:  # a batch of objects that cannot be pickled is not replayed: it is compared as it comes
        return
    if len(data) <= BYTES_MOST:
        path.write_bytes(data)


def _place(part: list[Any], whole: list[Any]) -> int | None:
    """Where `part` begins in `whole`, as a contiguous piece."""
    for start in range(len(whole) - len(part) + 1):
        if whole[start : start + len(part)] == part:
            return start
    return None


def _cut(value: Any, start: int, count: int, total: int) -> Any:
    """Rows start .. start + count of everything that has `total` rows."""
    if isinstance(value, torch.Tensor):
        return value[start : start + count] if value.dim() and value.shape[0] == total else value
    if isinstance(value, dict):
        return type(value)({k: _cut(v, start, count, total) for k, v in value.items()})
    if isinstance(value, (list, tuple)):
        if len(value) == total and not any(isinstance(v, torch.Tensor) and v.shape[:1] == (total,) for v in value):
            return value[start : start + count]
        parts = [_cut(v, start, count, total) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def _same(a: Any, b: Any) -> bool:
    """Equal in everything."""
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    return repr(a) == repr(b)


def _alike(a: Any, b: Any) -> bool:
    """The same structure, types and numbers of rows: what a padding or drawing collate function leaves equal."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.dim() == b.dim() and a.shape[:1] == b.shape[:1]
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_alike(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(_alike(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b)
